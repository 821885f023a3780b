//! Tree to typed raw plan, noting every error and going on.
//!
//! [`raw!`] and [`kinds!`] declare the raw types once, and from one declaration come the type, its
//! decoder, its list of known keys, its defaults and its JSON Schema, so that these can't drift apart.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use vtax_units::{BitRate, Bytes, Nanos, Rate, Share};

use crate::diagnose::{Report, listed, nearest};
use crate::source::{Span, Spanned};
use crate::tree::{Key, Node, Value};

/// Items of a list; every one makes a cell, so more could not be measured anyway.
const MAX_LIST: usize = 10_000;

/// Something that can be read from a node of the tree.
pub(crate) trait Decode: JsonSchema + Sized {
    /// Reads it; `None` where that failed, which has then been reported.
    fn decode(node: &Node, report: &mut Report) -> Option<Self>;
}

/// The options of a kind.
pub(crate) trait Options: Decode {
    /// True where some key must be given, so that the kind's name alone is not enough.
    const HAS_REQUIRED: bool;
}

/// One value or a non-empty list of them.
#[derive(Debug, Clone)]
pub(crate) struct Many<T> {
    /// The values that could be read.
    pub(crate) items: Vec<Item<T>>,
    /// False where some could not.
    pub(crate) complete: bool,
}

/// One value of a [`Many`].
#[derive(Debug, Clone)]
pub(crate) struct Item<T> {
    pub(crate) value: T,
    pub(crate) span: Span,
    /// As written, for labels; empty unless a scalar.
    pub(crate) text: String,
}

impl<T: Decode> Decode for Many<T> {
    fn decode(node: &Node, report: &mut Report) -> Option<Self> {
        let nodes = match &node.value {
            Value::Sequence(nodes) if nodes.is_empty() => {
                report.error(node.span, "an empty list leaves nothing to measure");
                return None;
            }
            Value::Sequence(nodes) if nodes.len() > MAX_LIST => {
                report.error(node.span, format!("this list has more than {MAX_LIST} items"));
                return None;
            }
            Value::Sequence(nodes) => nodes.as_slice(),
            _ => std::slice::from_ref(node),
        };
        let items: Vec<Item<T>> = nodes
            .iter()
            .filter_map(|node| {
                T::decode(node, report).map(|value| Item { value, span: node.span, text: node.label() })
            })
            .collect();
        Some(Self { complete: items.len() == nodes.len(), items })
    }
}

impl<T: JsonSchema> JsonSchema for Many<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("{}OrList", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        json_schema!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
    }
}

/// The schema of what is written as one scalar: its name, JSON types, what it looks like, and examples.
macro_rules! scalar_schema {
    ($type:ident: $name:literal, $types:tt, $what:expr, $examples:tt) => {
        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }

            fn schema_id() -> std::borrow::Cow<'static, str> {
                concat!(module_path!(), "::", stringify!($type)).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": $types, "description": $what, "examples": $examples })
            }
        }
    };
}

/// Gives the text of a scalar, or reports what is there instead.
pub(crate) fn scalar<'a>(node: &'a Node, what: &str, report: &mut Report) -> Option<&'a str> {
    match node.text() {
        Some(text) if !node.is_null() => Some(text),
        _ => {
            let entry = report.error(node.span, format!("{what} is needed here, not {}", node.describe()));
            if let Some(name) = unquoted(node) {
                entry.help(format!("a bare `{{` begins a mapping: quote it, `\"{{{name}}}\"`"));
            }
            None
        }
    }
}

/// The placeholder that this mapping is, as it was written without quotes.
fn unquoted(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Mapping(entries) => match entries.as_slice() {
            [(key, value)] if value.is_null() => {
                ["address", "port", "dir"].into_iter().find(|name| *key.value == **name)
            }
            _ => None,
        },
        _ => None,
    }
}

impl Decode for String {
    fn decode(node: &Node, report: &mut Report) -> Option<Self> {
        scalar(node, "a text", report).map(str::to_owned)
    }
}

impl Decode for bool {
    fn decode(node: &Node, report: &mut Report) -> Option<Self> {
        match scalar(node, "`true` or `false`", report)? {
            "true" => Some(true),
            "false" => Some(false),
            _ => {
                report.error(node.span, format!("{} is neither `true` nor `false`", node.describe()));
                None
            }
        }
    }
}

macro_rules! decode_whole_number {
    ($($type:ident)*) => { $(
        impl Decode for $type {
            fn decode(node: &Node, report: &mut Report) -> Option<Self> {
                let number = scalar(node, "a whole number", report)?.parse();
                if number.is_err() {
                    let most = $type::MAX;
                    report.error(node.span, format!("{} is not a whole number from 0 to {most}", node.describe()));
                }
                number.ok()
            }
        }
    )* };
}
decode_whole_number!(u16 u32 u64);

/// How many trials.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trials(pub(crate) u32);

impl Decode for Trials {
    fn decode(node: &Node, report: &mut Report) -> Option<Self> {
        let number = scalar(node, "a number of trials", report)?.parse::<u32>();
        if number.is_err() {
            let message = format!("{} is not a whole number of trials", node.describe());
            report.error(node.span, message).help("such as `repeat: 5`, or `repeat: {min: 5, max: 20}`");
        }
        number.ok().map(Self)
    }
}

impl JsonSchema for Trials {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        u32::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        u32::json_schema(generator)
    }
}

macro_rules! decode_quantity {
    ($($type:ident: $what:literal),* $(,)?) => { $(
        impl Decode for $type {
            fn decode(node: &Node, report: &mut Report) -> Option<Self> {
                match scalar(node, $what, report)?.parse() {
                    Ok(quantity) => Some(quantity),
                    Err(error) => {
                        report.error(node.span, vtax_units::UnitError::to_string(&error));
                        None
                    }
                }
            }
        }
    )* };
}
decode_quantity! {
    Nanos: "a duration such as `2s`",
    Bytes: "a size such as `512MiB`",
    Rate: "a rate such as `1000/s`",
    BitRate: "a bit rate such as `1gbit`",
    Share: "a share such as `50%`",
}

/// A command: program and arguments.
#[derive(Debug, Clone)]
pub(crate) struct Argv(pub(crate) Vec<Spanned<String>>);

impl Decode for Argv {
    fn decode(node: &Node, report: &mut Report) -> Option<Self> {
        let Value::Sequence(words) = &node.value else {
            report
                .error(
                    node.span,
                    format!("a command is a list of program and arguments, not {}", node.describe()),
                )
                .help(
                    "no shell is involved: write a list of words, such as `[python3, -m, http.server, \"{port}\"]`",
                );
            return None;
        };
        let decoded: Vec<_> = words
            .iter()
            .filter_map(|n| String::decode(n, report).map(|value| Spanned { value, span: n.span }))
            .collect();
        (decoded.len() == words.len()).then_some(Self(decoded))
    }
}

impl JsonSchema for Argv {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Argv".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "items": { "type": ["string", "number"] }, "minItems": 1 })
    }
}

/// A mapping from free names to texts.
#[derive(Debug, Clone, Default)]
pub(crate) struct TextMap(pub(crate) Vec<(Key, Spanned<String>)>);

impl Decode for TextMap {
    fn decode(node: &Node, report: &mut Report) -> Option<Self> {
        let entries = match &node.value {
            Value::Mapping(entries) => entries.as_slice(),
            _ if node.is_null() => &[],
            _ => {
                report.error(
                    node.span,
                    format!("a mapping of names to texts is needed here, not {}", node.describe()),
                );
                return None;
            }
        };
        let text = |node: &Node, report: &mut Report| match node.text() {
            Some(text) => Some(Spanned { value: text.to_string(), span: node.span }),
            None => String::decode(node, report).map(|value| Spanned { value, span: node.span }),
        };
        Some(Self(entries.iter().filter_map(|(k, v)| Some((k.clone(), text(v, report)?))).collect()))
    }
}

impl JsonSchema for TextMap {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "TextMap".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object", "additionalProperties": { "type": ["string", "number", "boolean"] } })
    }
}

/// The entries of a mapping whose keys are known.
pub(crate) struct Fields<'a> {
    entries: Cow<'a, [(Key, Node)]>,
    title: &'static str,
    known: Vec<&'static str>,
    span: Span,
}

impl<'a> Fields<'a> {
    /// Opens `node` as a mapping with these keys, reporting unknown ones. A scalar stands for the
    /// keys in `shorthand`, where there are any; nothing at all stands for an empty mapping.
    pub(crate) fn open(
        node: &'a Node,
        title: &'static str,
        known: &[&'static str],
        shorthand: &[&'static str],
        report: &mut Report,
    ) -> Option<Self> {
        let entries: Cow<'a, [(Key, Node)]> = match &node.value {
            Value::Mapping(entries) => entries.as_slice().into(),
            _ if node.is_null() => Vec::new().into(),
            Value::Scalar { .. } if !shorthand.is_empty() => {
                let entry = |key: &&str| (Spanned { value: (*key).into(), span: node.span }, node.clone());
                shorthand.iter().map(entry).collect::<Vec<_>>().into()
            }
            _ => {
                report
                    .error(node.span, format!("{title} must be a mapping, not {}", node.describe()))
                    .help(format!("its keys are {}", listed(known.iter().copied())));
                return None;
            }
        };
        let fields = Self { entries, title, known: known.to_vec(), span: node.span };
        for key in fields.unknown() {
            unknown(key, &format!("key in {title}"), "keys", known, report);
            report.guessed.extend(nearest(&key.value, known.iter().copied()));
        }
        Some(fields)
    }

    fn unknown(&self) -> impl Iterator<Item = &Key> {
        self.entries.iter().map(|(key, _)| key).filter(|key| !self.known.contains(&&*key.value))
    }

    /// True where an unknown key was probably meant to be this one, which was then told already.
    fn misspelt(&self, key: &str) -> bool {
        self.unknown().any(|unknown| nearest(&unknown.value, self.known.iter().copied()) == Some(key))
    }

    fn find(&self, key: &str) -> Option<&Node> {
        self.entries.iter().find(|(k, _)| &*k.value == key).map(|(_, v)| v)
    }

    pub(crate) fn required<T: Decode>(&self, key: &str, report: &mut Report) -> Option<Spanned<T>> {
        if self.find(key).is_none() && !self.misspelt(key) {
            report.error(self.span.at_start(), format!("{} needs the key `{key}`", self.title));
        }
        self.optional(key, report)
    }

    pub(crate) fn optional<T: Decode>(&self, key: &str, report: &mut Report) -> Option<Spanned<T>> {
        let node = self.find(key)?;
        T::decode(node, report).map(|value| Spanned { value, span: node.span })
    }

    /// The value given, or the default where none was given or it was refused.
    pub(crate) fn or_default<T: Decode>(
        &self,
        key: &str,
        default: &str,
        report: &mut Report,
    ) -> Option<Spanned<T>> {
        if let Some(given) = self.optional(key, report) {
            return Some(given);
        }
        let span = self.span.at_start();
        T::decode(&Node::scalar(default, span), report).map(|value| Spanned { value, span })
    }
}

/// Kinds of environment, and what others call them.
const OTHER_NAMES: [(&str, &[&str]); 3] = [
    ("container", &["docker", "podman", "oci"]),
    ("vm", &["kvm", "qemu"]),
    ("native", &["host", "bare-metal", "baremetal"]),
];

/// The known word for what others call by this name.
fn other_name(word: &str, known: &[&str]) -> Option<&'static str> {
    let word = word.to_lowercase().replace('_', "-");
    let called = |others: &[&str]| others.contains(&word.as_str());
    OTHER_NAMES.iter().find(|(kind, others)| known.contains(kind) && called(others)).map(|(kind, _)| *kind)
}

/// Reports a word that is not among the known ones, with the one that was probably meant.
pub(crate) fn unknown(word: &Key, what: &str, plural: &str, known: &[&str], report: &mut Report) {
    let text = crate::diagnose::shorten(&word.value);
    let guess = other_name(&word.value, known).or_else(|| nearest(&word.value, known.iter().copied()));
    let guess = match guess {
        Some(guess) => format!("did you mean `{guess}`? "),
        None if known.contains(&"command") => {
            format!("a program of your own is a `command: {{run: [{text}], port: 8000}}`; ")
        }
        None => String::new(),
    };
    let allowed = match known {
        [] => format!("there are no {plural} here"),
        known => format!("allowed {plural}: {}", listed(known.iter().copied())),
    };
    report.error(word.span, format!("unknown {what}: `{text}`")).help(format!("{guess}{allowed}"));
}

/// Opens a `kind` or `kind: {options}` item: which of `known` it is, and the node of its options.
pub(crate) fn open_kind<'a>(
    node: &'a Node,
    title: &str,
    known: &[&'static str],
    report: &mut Report,
) -> Option<(usize, Cow<'a, Node>)> {
    let (kind, options) = match &node.value {
        Value::Mapping(entries) if entries.len() == 1 => (entries[0].0.clone(), Cow::Borrowed(&entries[0].1)),
        Value::Scalar { text, .. } if !node.is_null() => {
            (Spanned { value: text.clone(), span: node.span }, Cow::Owned(Node::mapping(node.span)))
        }
        value => {
            let what = match value {
                Value::Mapping(entries) if entries.len() > 1 => "a mapping of several keys".to_owned(),
                _ => node.describe(),
            };
            let kinds = || format!("kinds: {}", listed(known.iter().copied()));
            report
                .error(node.span, format!("{title} is written `kind` or `kind: {{options}}`, not as {what}"))
                .help(beside_kind(node, known).unwrap_or_else(kinds));
            return None;
        }
    };
    match known.iter().position(|k| **k == *kind.value) {
        Some(index) => Some((index, options)),
        None => {
            unknown(&kind, title, "kinds", known, report);
            None
        }
    }
}

/// What to do about a mapping that begins with a kind: its options, or other kinds, stand beside it.
fn beside_kind(node: &Node, known: &[&'static str]) -> Option<String> {
    let Value::Mapping(entries) = &node.value else { return None };
    let is_kind = |key: &Key| known.iter().any(|kind| **kind == *key.value);
    if entries.len() > 1 && entries.iter().all(|(key, _)| is_kind(key)) {
        let items: Vec<String> = entries.iter().map(|(key, _)| format!("`- {}`", key.value)).collect();
        let items = items.join(", ");
        return Some(format!("write a list: {items}; or one of them, where there can be only one"));
    }
    let (first, options) = entries.first()?;
    let may_have = options.is_null() || matches!(options.value, Value::Mapping(_));
    (is_kind(first) && may_have).then(|| format!("indent the options of `{}` below it", first.value))
}

/// The schema of one field: its type's, with description and default.
pub(crate) fn field_schema<T: JsonSchema>(
    generator: &mut SchemaGenerator,
    docs: &[&str],
    default: Option<&str>,
) -> Schema {
    let mut schema = generator.subschema_for::<T>();
    if !docs.is_empty() {
        schema.insert("description".into(), prose(docs).into());
    }
    if let Some(default) = default.filter(|d| !d.is_empty()) {
        let value = serde_json::from_str(default).unwrap_or_else(|_| default.into());
        schema.insert("default".into(), value);
    }
    schema
}

/// Doc comment lines as one paragraph.
pub(crate) fn prose(lines: &[&str]) -> String {
    lines.iter().map(|l| l.trim()).collect::<Vec<_>>().join(" ").trim().to_owned()
}

/// Declares mappings with known keys. Fields are `required`, `optional` or have a `default`;
/// `short [a, b]` lets a scalar stand for these keys.
macro_rules! raw {
    (@type required $type:ty) => { Option<Spanned<$type>> };
    (@type optional $type:ty) => { Option<Spanned<$type>> };
    (@type default $type:ty) => { Spanned<$type> };
    (@read required $fields:ident $key:expr, $report:ident) => { Some($fields.required($key, $report)) };
    (@read optional $fields:ident $key:expr, $report:ident) => { Some($fields.optional($key, $report)) };
    (@read default $fields:ident $key:expr, $report:ident, $default:literal) => {
        $fields.or_default($key, $default, $report)
    };
    (@is_required required) => { true };
    (@is_required $other:ident) => { false };
    (@default) => { None };
    (@default $default:literal) => { Some($default) };
    ($(
        $(#[doc = $doc:literal])*
        struct $name:ident = $title:literal $(, short [$first:ty; $($short:ident),*])? {
            $( $(#[doc = $field_doc:literal])* $mode:ident $field:ident: $type:ty $(= $default:literal)?, )*
        }
    )*) => { $(
        $(#[doc = $doc])*
        #[derive(Debug, Clone)]
        pub(crate) struct $name {
            $( $(#[doc = $field_doc])* pub(crate) $field: raw!(@type $mode $type), )*
        }

        impl $crate::decode::Decode for $name {
            fn decode(node: &$crate::tree::Node, report: &mut $crate::diagnose::Report) -> Option<Self> {
                let known = [$(stringify!($field)),*];
                let short: &[&'static str] = &[$($(stringify!($short)),*)?];
                let fields = $crate::decode::Fields::open(node, $title, &known, short, report)?;
                // Every field is read before any can fail, so that all errors are found.
                $( let $field = raw!(@read $mode fields stringify!($field), report $(, $default)?); )*
                Some(Self { $( $field: $field? ),* })
            }
        }

        impl $crate::decode::Options for $name {
            const HAS_REQUIRED: bool = $( raw!(@is_required $mode) || )* false;
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).trim_end_matches("Raw").into()
            }

            fn schema_id() -> std::borrow::Cow<'static, str> {
                concat!(module_path!(), "::", stringify!($name)).into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let properties: serde_json::Map<String, serde_json::Value> = [$(
                    (stringify!($field).to_owned(), $crate::decode::field_schema::<$type>(
                        generator, &[$($field_doc),*], raw!(@default $($default)?),
                    ).to_value()),
                )*].into_iter().collect();
                let required: Vec<&str> = [$( (stringify!($field), raw!(@is_required $mode)) ),*]
                    .into_iter().filter_map(|(name, required)| required.then_some(name)).collect();
                let mut object = schemars::json_schema!({
                    "type": "object",
                    "properties": properties,
                    "additionalProperties": false,
                });
                if !required.is_empty() {
                    object.insert("required".into(), required.into());
                }
                $( object = schemars::json_schema!({ "anyOf": [generator.subschema_for::<$first>(), object] }); )?
                object.insert("description".into(), $crate::decode::prose(&[$($doc),*]).into());
                object
            }
        }
    )* };
}

/// Declares the options of kinds of service: those that every service has, and its own. `ready` and `stop`
/// are what the times are where none is given.
macro_rules! services {
    ($(
        $(#[doc = $doc:literal])*
        struct $name:ident = $title:literal, ready $ready:literal, stop $stop:literal {
            $( $(#[doc = $field_doc:literal])* $mode:ident $field:ident: $type:ty $(= $default:literal)?, )*
        }
    )*) => { raw! { $(
        $(#[doc = $doc])*
        struct $name = $title {
            /// Name in reports; without it, the kind's.
            optional name: String,
            $( $(#[doc = $field_doc])* $mode $field: $type $(= $default)?, )*
            /// How long it may take to become ready.
            default ready_timeout: Nanos = $ready,
            /// How long it may take to stop before it is killed.
            default stop_timeout: Nanos = $stop,
        }
    )* } };
}

/// Declares a choice of words without options.
macro_rules! words {
    ($( $(#[doc = $doc:literal])* $name:ident($model:ty) = $title:literal, $plural:literal {
        $( $word:literal: $variant:ident, $about:literal; )*
    } )*) => { $(
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub(crate) struct $name(pub(crate) $model);

        impl $crate::decode::Decode for $name {
            fn decode(node: &$crate::tree::Node, report: &mut $crate::diagnose::Report) -> Option<Self> {
                let known = [$($word),*];
                let choices = known.map(|word| format!("`{word}`")).join(" or ");
                match $crate::decode::scalar(node, &choices, report)? {
                    $( $word => Some(Self(<$model>::$variant)), )*
                    text => {
                        let word = $crate::source::Spanned { value: text.into(), span: node.span };
                        $crate::decode::unknown(&word, $title, $plural, &known, report);
                        None
                    }
                }
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).trim_end_matches("Raw").into()
            }

            fn schema_id() -> std::borrow::Cow<'static, str> {
                concat!(module_path!(), "::", stringify!($name)).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "oneOf": [$( { "const": $word, "description": $about } ),*] })
            }
        }
    )* };
}

/// Declares a choice that is written `kind` or `kind: {options}`; a word that is no identifier is given
/// after it: `vm_vm = "vm-vm"`.
macro_rules! kinds {
    (@word $kind:ident) => { stringify!($kind) };
    (@word $kind:ident $word:literal) => { $word };
    ($(
        $(#[doc = $doc:literal])*
        enum $name:ident = $title:literal {
            $( $(#[doc = $kind_doc:literal])* $kind:ident $(= $word:literal)?: $variant:ident($options:ident), )*
        }
    )*) => { $(
        $(#[doc = $doc])*
        #[derive(Debug, Clone)]
        #[allow(clippy::large_enum_variant, reason = "a plan has a handful of them, read once")]
        pub(crate) enum $name {
            $( $(#[doc = $kind_doc])* $variant($options), )*
        }

        impl $crate::decode::Decode for $name {
            fn decode(node: &$crate::tree::Node, report: &mut $crate::diagnose::Report) -> Option<Self> {
                let known = [$(kinds!(@word $kind $($word)?)),*];
                let (index, options) = $crate::decode::open_kind(node, $title, &known, report)?;
                let kind = known[index];
                $( if kind == kinds!(@word $kind $($word)?) {
                    return <$options as $crate::decode::Decode>::decode(&options, report).map(Self::$variant);
                } )*
                None
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).trim_end_matches("Raw").into()
            }

            fn schema_id() -> std::borrow::Cow<'static, str> {
                concat!(module_path!(), "::", stringify!($name)).into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let mut choices = Vec::new();
                $(
                    let about = $crate::decode::prose(&[$($kind_doc),*]);
                    if !<$options as $crate::decode::Options>::HAS_REQUIRED {
                        choices.push(serde_json::json!({ "const": kinds!(@word $kind $($word)?), "description": about }));
                    }
                    choices.push(serde_json::json!({
                        "type": "object",
                        "description": about,
                        "properties": { kinds!(@word $kind $($word)?): $crate::decode::field_schema::<$options>(
                            generator, &[$($kind_doc),*], None) },
                        "required": [kinds!(@word $kind $($word)?)],
                        "additionalProperties": false,
                    }));
                )*
                schemars::json_schema!({
                    "description": $crate::decode::prose(&[$($doc),*]),
                    "oneOf": choices,
                })
            }
        }
    )* };
}
