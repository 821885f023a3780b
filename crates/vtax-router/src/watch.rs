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
        lock(&self.heard).iter().filter(|entry| (from..=to).contains(&entry.at)).cloned().collect()
    }
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
                let mut heard = lock(into);
                if heard.len() < MOST_ENTRIES {
                    let text = shortened(&words);
                    heard.push(Entry { at, router: name.clone(), source: Source::Kernel, text });
                }
            });
        }
    }
}
