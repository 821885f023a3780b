//! Listening to the kernels of all nodes: interfaces, routes, labels, each with the time at which it was heard.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use vtax_sys::netlink::News;
use vtax_sys::sync::lock;
use vtax_sys::{Context as _, clock};
use vtax_topology::timeline::{Entry, Source, shortened};
use vtax_units::Nanos;

use crate::build::Spaces;
use crate::error::{Result, While};

/// Most entries that wait to be fetched: a table of ten thousand routes that changes has so many at once.
const MOST_ENTRIES: usize = 100_000;
/// How long the thread sleeps at most before it looks whether it is over.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Listens until it is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    stop: Arc<AtomicBool>,
    heard: Arc<Mutex<Vec<Entry>>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Begins to listen in every namespace.
    pub(crate) fn start(spaces: &Spaces) -> Result<Self> {
        let what = || "listen to the routers' kernels".to_owned();
        let mut all = Vec::new();
        for (name, space) in spaces.iter() {
            all.push((name.to_owned(), space.run(News::open).during(what)?));
        }
        let (stop, heard) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (over, into) = (Arc::clone(&stop), Arc::clone(&heard));
        let listen = move || listen(all, &over, &into);
        let thread = std::thread::Builder::new().name("watch".to_owned()).spawn(listen);
        let thread = thread.context("start", "the thread that listens to routers").during(what)?;
        Ok(Self { stop, heard, thread: Some(thread) })
    }

    /// What was heard in a time.
    pub(crate) fn between(&self, from: Nanos, to: Nanos) -> Vec<Entry> {
        between(&lock(&self.heard), from, to)
    }

    /// Forgets what was heard until now.
    pub(crate) fn forget(&self) {
        lock(&self.heard).clear();
    }
}

/// Keeps an entry where there is room; of the first for which there is none, that there is more.
fn keep(heard: &mut Vec<Entry>, entry: Entry) {
    match heard.len() {
        ..MOST_ENTRIES => heard.push(entry),
        MOST_ENTRIES => {
            let text = "later changes of the kernels are left out".to_owned();
            heard.push(Entry { at: entry.at, router: "all".to_owned(), source: Source::Fault, text });
        }
        _ => {}
    }
}

/// Those of a time; of one after which nothing was kept, that it is so.
fn between(heard: &[Entry], from: Nanos, to: Nanos) -> Vec<Entry> {
    let within = heard.iter().filter(|entry| (from..=to).contains(&entry.at));
    let full = heard.get(MOST_ENTRIES).filter(|entry| entry.at < from);
    within.cloned().chain(full.map(|entry| Entry { at: from, ..entry.clone() })).collect()
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn listen(mut all: Vec<(String, News)>, over: &AtomicBool, into: &Mutex<Vec<Entry>>) {
    while !over.load(Ordering::Relaxed) {
        let mut waiting: Vec<PollFd<'_>> =
            all.iter().map(|(_, news)| PollFd::new(news, PollFlags::IN)).collect();
        // Interrupted or not: the loop looks again.
        let _ = poll(&mut waiting, Some(&LOOK_EVERY));
        drop(waiting);
        let at = clock::unix_time();
        for (name, news) in &mut all {
            // A socket that fails hears nothing more; what the others hear is still of use.
            let _ = news.take(|words| {
                let text = shortened(&words);
                keep(&mut lock(into), Entry { at, router: name.clone(), source: Source::Kernel, text });
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_told_once_and_in_every_later_time() {
        let mut heard = Vec::new();
        for at in 0..MOST_ENTRIES as u64 + 10 {
            let (router, text) = ("r1".to_owned(), String::new());
            keep(&mut heard, Entry { at: Nanos(at), router, source: Source::Kernel, text });
        }
        assert_eq!(heard.len(), MOST_ENTRIES + 1);
        let told = |from, to| {
            let all = between(&heard, Nanos(from), Nanos(to));
            all.iter()
                .filter(|entry| entry.source == Source::Fault)
                .map(|entry| entry.at.0)
                .collect::<Vec<_>>()
        };
        let full = MOST_ENTRIES as u64;
        assert!(told(0, full - 1).is_empty());
        assert_eq!(told(full - 5, full + 5), [full]);
        assert_eq!(told(full + 1, full + 5), [full + 1]);
        assert_eq!(between(&heard, Nanos(3), Nanos(4)).len(), 2);
    }
}
