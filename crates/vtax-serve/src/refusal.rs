//! What a request gets that isn't answered.

use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use vtax_report::ReportError;
use vtax_store::StoreError;

use crate::pages::shell;

/// Why a request isn't answered, in words for its sender.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) text: String,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }

    /// There is no such thing.
    pub(crate) fn missing(what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("There is no {what}."))
    }

    /// What was asked can't be understood.
    pub(crate) fn unclear(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }

    /// Something that should not happen did; what it was may be the sender's secret or another's, so it isn't told.
    pub(crate) fn bug() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "This is a bug of vtax, or of a run that is damaged in a new way.",
        )
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, chain(&error))
    }
}

impl From<ReportError> for Refusal {
    fn from(error: ReportError) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, chain(&error))
    }
}

/// An error with its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text.push_str(&format!(": {next}"));
        cause = next.source();
    }
    text
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let title = self.status.canonical_reason().unwrap_or("Refused");
        let mut body = vtax_report::markup::Markup::new();
        body.element("h1", &[], title).element("p", &[], &self.text);
        (self.status, Html(shell::page(title, "", &body))).into_response()
    }
}
