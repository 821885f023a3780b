//! `vtax explain`: what a word means.

use std::io::IsTerminal;

use vtax_docs::{Explained, explain, terms};

use crate::exit::{Classify, Exit, Outcome};
use crate::{out, screen};

/// What a metric, a verdict or another word of plans and reports means, answered from the documentation.
///
/// Capitals, - and _ don't matter: `latency_p99`, `too-wide`, `closed loop`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The word, or several that belong together [default: list what is explained].
    #[arg(value_name = "METRIC|VERDICT|WORD")]
    word: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let width = if std::io::stdout().is_terminal() { screen::size().1.min(100) } else { 100 };
    if args.word.is_empty() {
        out::text(&list(width))?;
        return Ok(Exit::Done);
    }
    let word = args.word.join(" ");
    let (answers, also) = match explain(&word) {
        Explained::Found { answers, also } => (answers, also),
        Explained::Unknown(near) => {
            let near = match near.as_slice() {
                [] => String::new(),
                near => format!("did you mean {}? ", near.join(", ")),
            };
            let error =
                anyhow::anyhow!("`{word}` isn't explained anywhere; {near}`vtax explain` lists what is");
            return Err(error).bad_input();
        }
    };
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

/// All that is explained, by page.
fn list(width: usize) -> String {
    let pages = terms().into_iter().filter(|(_, terms)| !terms.is_empty());
    let shown = pages.map(|(page, terms)| {
        let terms = screen::wrapped(&terms.join(", "), "  ", width);
        format!("{page}\n{terms}")
    });
    shown.collect::<Vec<_>>().join("\n")
}
