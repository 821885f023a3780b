//! `vtax explain`: what a word means.

use std::io::IsTerminal;

use vtax_docs::{Explained, explain};

use crate::exit::{Classify, Exit, Outcome};
use crate::{out, screen};

/// What a metric, a verdict or another word of plans and reports means, answered from the documentation.
///
/// Capitals, - and _ don't matter: `latency_p99`, `too-wide`, `closed loop`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The word, or several that belong together.
    #[arg(required = true, value_name = "METRIC|VERDICT|WORD")]
    word: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let word = args.word.join(" ");
    let (answers, also) = match explain(&word) {
        Explained::Found { answers, also } => (answers, also),
        Explained::Unknown(near) => {
            let near = match near.as_slice() {
                [] => "docs/words.md lists what there is".to_owned(),
                near => format!("did you mean {}?", near.join(", ")),
            };
            return Err(anyhow::anyhow!("`{word}` isn't explained anywhere; {near}")).bad_input();
        }
    };
    let width = if std::io::stdout().is_terminal() { screen::size().1.min(100) } else { 100 };
    let mut text = String::new();
    for answer in answers {
        text += &format!("{}  ({})\n", answer.term, answer.place);
        for paragraph in answer.text.lines() {
            text += &screen::wrapped(paragraph, "  ", width);
        }
        text.push('\n');
    }
    if !also.is_empty() {
        text += &format!("also in {}\n", also.join(", "));
    }
    out::text(&text)?;
    Ok(Exit::Done)
}
