//! HTTP/1.1 as the engine sees it.

use vtax_wire::http::{HttpError, Response, ResponseScanner};

use super::HttpRequests;
use crate::requests::{Answer, Dialogue, Outcome, Taken};

/// GET requests that are all alike, one at a time on each connection.
#[derive(Debug, Clone)]
pub(super) struct HttpDialogue {
    request: Vec<u8>,
    /// The last one on a connection.
    last_request: Vec<u8>,
}

impl HttpDialogue {
    pub(super) fn new(requests: &HttpRequests) -> Self {
        Self { request: requests.bytes(false), last_request: requests.bytes(true) }
    }
}

impl Dialogue for HttpDialogue {
    type Connection = ResponseScanner;

    fn write(&mut self, _connection: &mut ResponseScanner, last: bool, out: &mut Vec<u8>) {
        out.extend_from_slice(if last { &self.last_request } else { &self.request });
    }

    fn read(&mut self, scanner: &mut ResponseScanner, bytes: &[u8]) -> Result<Taken, Outcome> {
        let scanned = scanner.scan(bytes).map_err(outcome)?;
        Ok(Taken { bytes: scanned.consumed, answer: scanned.response.map(answer) })
    }

    fn skippable(&self, scanner: &ResponseScanner) -> u64 {
        scanner.skippable()
    }

    fn skip(&mut self, scanner: &mut ResponseScanner, bytes: u64) -> Option<Answer> {
        scanner.skip(bytes).map(answer)
    }

    fn end(&mut self, scanner: &mut ResponseScanner) -> Result<Option<Answer>, Outcome> {
        scanner.end().map(|response| response.map(answer)).map_err(outcome)
    }
}

fn answer(response: Response) -> Answer {
    let good = (200..400).contains(&response.status);
    Answer {
        outcome: if good { Outcome::Ok } else { Outcome::Status },
        status: response.status,
        keep: response.keep_alive,
    }
}

pub(super) fn outcome(error: HttpError) -> Outcome {
    match error {
        HttpError::Truncated => Outcome::Reset,
        _ => Outcome::Protocol,
    }
}
