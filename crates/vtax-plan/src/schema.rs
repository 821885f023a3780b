//! The JSON Schema of the plan format, for editors.

use schemars::generate::SchemaSettings;

use crate::raw::PlanRaw;

/// The JSON Schema (draft 2020-12) of a plan as written, with descriptions and defaults.
///
/// It knows keys, kinds and types; what keys mean together is checked by [`load`](crate::load) only.
#[must_use]
pub fn schema() -> serde_json::Value {
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<PlanRaw>();
    schema.insert("title".into(), "vtax plan".into());
    schema.to_value()
}
