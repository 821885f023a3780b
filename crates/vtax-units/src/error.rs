//! Why a text is refused.

/// Why a text is not the quantity that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {what}: {reason}")]
pub struct UnitError {
    /// The text as given.
    pub text: String,
    /// What was expected, with an example.
    pub what: &'static str,
    /// Why it was refused.
    pub reason: String,
}

impl UnitError {
    pub(crate) fn new(text: &str, what: &'static str, reason: impl Into<String>) -> Self {
        Self { text: text.to_owned(), what, reason: reason.into() }
    }
}
