//! The JSON Schema of a study's file, for editors.

use schemars::generate::SchemaSettings;

use crate::model::Study;

/// The JSON Schema (draft 2020-12) of `claims.yaml`.
///
/// It knows keys and types; what they mean together is checked by [`open`](crate::open) only.
#[must_use]
pub fn schema() -> serde_json::Value {
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Study>();
    schema.insert("title".into(), "vtax study".into());
    schema.to_value()
}
