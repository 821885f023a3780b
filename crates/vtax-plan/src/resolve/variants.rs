//! Choices with their lists of values multiplied out.

use vtax_units::Nanos;

use super::check::{duration_in, name_or};
use crate::decode::Many;
use crate::diagnose::{Entry, Report, shorten};
use crate::model::{Service, ServiceKind};
use crate::source::{Span, Spanned};

/// More cells than this are taken for a slip: at a trial of one second they'd take days.
pub(crate) const MAX_CELLS: usize = 10_000;
/// The longest slug of one parameter value in a cell id.
const SLUG_LENGTH: usize = 40;

pub(crate) fn too_many(span: Span, report: &mut Report) -> &mut Entry {
    report.error(span, format!("the plan has more than {MAX_CELLS} cells"))
}

/// A choice among several with the parameters that make it this one.
#[derive(Debug, Clone)]
pub(crate) struct Variant<T> {
    pub(crate) value: T,
    /// Name and value as written of every parameter that varies.
    pub(crate) parameters: Vec<(&'static str, String)>,
}

/// The variants of one choice, with every list of values multiplied out.
#[derive(Debug)]
pub(crate) struct Variants<T>(pub(crate) Vec<Variant<T>>);

impl<T: Clone> Variants<T> {
    pub(crate) fn of(value: T) -> Self {
        Self(vec![Variant { value, parameters: Vec::new() }])
    }

    /// Multiplies by the values of one key, reporting values that are given twice.
    pub(crate) fn vary<V: Clone + PartialEq>(
        self,
        key: &'static str,
        values: &Many<V>,
        report: &mut Report,
        set: impl Fn(&mut T, V),
    ) -> Self {
        let items = &values.items;
        if self.0.len().saturating_mul(items.len()) > MAX_CELLS {
            let span = items.first().map_or_else(Span::default, |i| i.span);
            too_many(span, report);
            return self;
        }
        let twice =
            items.iter().enumerate().filter(|(i, item)| items[..*i].iter().any(|e| e.value == item.value));
        for (_, item) in twice {
            report.error(item.span, format!("`{}` is in the list twice", shorten(&item.text)));
        }
        let mut varied = Vec::with_capacity(self.0.len() * items.len());
        for variant in self.0 {
            for item in items {
                let mut variant = variant.clone();
                set(&mut variant.value, item.value.clone());
                if items.len() > 1 {
                    variant.parameters.push((key, item.text.clone()));
                }
                varied.push(variant);
            }
        }
        Self(varied)
    }

    /// The same variants of what holds these.
    pub(crate) fn map<U>(self, wrap: impl Fn(T) -> U) -> Variants<U> {
        let wrap = |v: Variant<T>| Variant { value: wrap(v.value), parameters: v.parameters };
        Variants(self.0.into_iter().map(wrap).collect())
    }

    /// As [`vary`](Self::vary) where the key was given.
    pub(crate) fn vary_if<V: Clone + PartialEq>(
        self,
        key: &'static str,
        values: Option<&Spanned<Many<V>>>,
        report: &mut Report,
        set: impl Fn(&mut T, V),
    ) -> Self {
        match values {
            Some(values) => self.vary(key, &values.value, report, set),
            None => self,
        }
    }
}

/// What the plan names, with where it does.
#[derive(Debug)]
pub(crate) struct Named<T> {
    pub(crate) name: String,
    pub(crate) span: Span,
    pub(crate) variants: Variants<T>,
}

/// Reports names that are taken and leaves their bearers out.
pub(crate) fn unique<T>(what: &str, all: Vec<Named<T>>, report: &mut Report) -> Vec<Named<T>> {
    let mut kept: Vec<Named<T>> = Vec::with_capacity(all.len());
    for named in all {
        match kept.iter().find(|other| other.name == named.name) {
            None => kept.push(named),
            Some(other) => {
                report
                    .error(named.span, format!("{what} `{}` is in the plan twice", named.name))
                    .help(format!("give this one a `name` of its own, such as `{}-2`", named.name))
                    .first_at(other.span);
            }
        }
    }
    kept
}

/// A service of this kind with the keys that all have: name, and times to become ready and to stop.
pub(crate) fn service(
    kind: ServiceKind,
    name: Option<&Spanned<String>>,
    (ready, stop): (&Spanned<Nanos>, &Spanned<Nanos>),
    report: &mut Report,
) -> Service {
    let most = Nanos::from_secs(3600);
    Service {
        name: name_or(name, kind.facts().word, report),
        kind,
        ready_timeout: duration_in(ready, "ready_timeout", Nanos(1), most, report),
        stop_timeout: duration_in(stop, "stop_timeout", Nanos(1), most, report),
    }
}

/// Letters, digits and `_` of a value, everything else as single hyphens.
pub(crate) fn slug(value: &str) -> String {
    let mut slug = String::new();
    for c in value.chars() {
        if c.is_ascii_alphanumeric() || c == '_' {
            slug.push(c);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
        if slug.len() >= SLUG_LENGTH {
            break;
        }
    }
    match slug.trim_end_matches('-') {
        "" => "root".to_owned(),
        slug => slug.to_owned(),
    }
}
