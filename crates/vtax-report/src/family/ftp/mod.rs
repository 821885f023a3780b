//! FTP: phases of transfers, what TLS costs on control and on data connections, every load.

mod load;
mod phases;
mod study;
mod tax;
pub(crate) mod trial;

use crate::chapter::{Chapter, Page, Rank};
use crate::context::Context;
use crate::data::RunData;
use crate::table::Table;

/// The chapter about FTP.
#[derive(Debug)]
pub(crate) struct Ftp;

impl Chapter for Ftp {
    fn page(&self, context: &Context) -> Page {
        let mut page = Page::default();
        if !context.data.trials.iter().any(|trial| trial::found(trial).is_some()) {
            return page;
        }
        page.put(Rank::Taxes, "ftp-tls", "What TLS costs", tax::section(context));
        page.put(Rank::Pictures, "ftp-phases", "Phases of transfers", phases::section(context));
        page.put(Rank::Details, "ftp-study", "Beside the study", study::section(context));
        page.put(Rank::Details, "ftp-load", "Every load of FTP", load::section(&context.data));
        page.words.push((
            "PROT C, PROT P",
            "TLS on the control connection only, and on data connections, too (RFC 4217).",
        ));
        page
    }

    fn asked(&self, data: &RunData) -> Option<String> {
        tax::asked(data)
    }

    fn tables(&self, context: &Context) -> Vec<Table> {
        load::tables(&context.data)
    }
}
