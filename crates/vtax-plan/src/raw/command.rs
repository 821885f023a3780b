//! A service of the user's own as written.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use vtax_units::Nanos;

use crate::decode::{Argv, Decode, TextMap};
use crate::diagnose::Report;
use crate::source::Spanned;
use crate::tree::Node;

services! {
    /// Options of `command`.
    struct CommandRaw = "`command`", ready "30s", stop "5s" {
        /// Program and arguments; no shell is involved. `{address}`, `{port}` and `{dir}` are
        /// replaced by where it must listen and by its private directory.
        required run: Argv,
        /// Port the workload talks to.
        required port: u16,
        /// When it is ready: `port` (accepts a connection), `log: TEXT` (prints a line with this
        /// text) or `run: [PROGRAM, ...]` (this command exits with 0).
        default ready: ReadyRaw = "port",
        /// Environment variables added to a minimal set.
        default env: TextMap = "",
        /// Files written into `{dir}` before the start: relative path to content.
        default files: TextMap = "",
    }
}

/// When a service of the user's own is ready.
#[derive(Debug, Clone)]
pub(crate) enum ReadyRaw {
    Port,
    Log(Spanned<String>),
    Run(Argv),
}

impl Decode for ReadyRaw {
    fn decode(node: &Node, report: &mut Report) -> Option<Self> {
        let known = ["port", "log", "run"];
        let (index, options) = crate::decode::open_kind(node, "ready condition", &known, report)?;
        let options = options.as_ref();
        match index {
            0 => Some(Self::Port),
            1 => {
                String::decode(options, report).map(|value| Self::Log(Spanned { value, span: options.span }))
            }
            _ => Argv::decode(options, report).map(Self::Run),
        }
    }
}

impl JsonSchema for ReadyRaw {
    fn schema_name() -> Cow<'static, str> {
        "Ready".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let argv = generator.subschema_for::<Argv>();
        let keyed = |key: &str, value: serde_json::Value, about: &str| {
            serde_json::json!({ "type": "object", "properties": { key: value }, "required": [key],
                "additionalProperties": false, "description": about })
        };
        json_schema!({ "oneOf": [
            { "const": "port", "description": "The port accepts a TCP connection." },
            keyed("log", serde_json::json!({ "type": "string" }), "A line of its output contains this text."),
            keyed("run", argv.to_value(), "This command exits with 0."),
        ]})
    }
}
