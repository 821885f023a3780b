//! Breaks and mends things when their time comes, beside a load that runs.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

use vtax_agent::{AgentError, Client};
use vtax_lab::ft::{FtPair, PairEvent, PairEventKind, Side, Struck};
use vtax_lab::{LabError, Node, PathSwitch};
use vtax_plan::model::{Fault, FaultKind, FaultTarget, TopologyFault};
use vtax_sys::chain;
use vtax_sys::clock::unix_time;
use vtax_sys::sync::{into_inner, lock};
use vtax_units::Nanos;

use crate::observe::{Observer, RunEvent};

/// Time between two looks at what became of the guest.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What was done about one fault of the plan.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Done {
    /// Its number among the trial's faults, from 0.
    pub(crate) number: usize,
    pub(crate) fault: Fault,
    /// When it took hold, in nanoseconds since 1970; of one that was refused, when it was tried.
    pub(crate) at_unix_ns: u64,
    /// Whether the guest was protected just before; `None` where it is none that could be.
    pub(crate) protected: Option<bool>,
    /// The host it happened to, where it was one of a pair's.
    pub(crate) host: Option<String>,
    /// Why it could not be done, where it could not.
    pub(crate) refused: Option<String>,
    /// What of it could not be done, where the rest was.
    pub(crate) undone: Option<String>,
}

/// A fault that was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hit {
    /// The host it happened to, where it was one of a pair's.
    pub(crate) host: Option<String>,
    /// When it took hold, time since 1970.
    pub(crate) at: Nanos,
    /// What of it could not be done, where the rest was.
    pub(crate) undone: Option<String>,
}

impl Hit {
    /// One that happened to no host of a pair, from this moment on.
    const fn elsewhere(at: Nanos) -> Self {
        Self { host: None, at, undone: None }
    }
}

impl From<Struck> for Hit {
    fn from(struck: Struck) -> Self {
        Self { host: Some(struck.host), at: struck.at, undone: None }
    }
}

/// What faults happen to: a testbed, or a simulated one.
pub(crate) trait Rig: Sync {
    /// Does it.
    fn inject(&self, kind: FaultKind) -> Result<Hit, String>;
    /// Whether the guest is protected; `None` where it is none that could be.
    fn protected(&self) -> Option<bool>;
    /// Everything that has happened to the pair.
    fn events(&self) -> Vec<PairEvent>;
}

/// Brings the service up again in a guest that was booted again.
pub(crate) type Revive<'a> = &'a (dyn Fn() -> Result<(), String> + Sync);

/// Holds the faults of a trial.
pub(crate) struct Injector<'a> {
    pub(crate) rig: &'a dyn Rig,
    pub(crate) faults: Vec<Fault>,
    pub(crate) revive: Revive<'a>,
    /// Is told what was done, while the load goes on.
    pub(crate) observer: &'a dyn Observer,
}

/// Tells the injecting thread that the load is over, also where the load panics: a scope waits for its threads.
struct Over<'a> {
    flag: &'a AtomicBool,
    injector: &'a Thread,
}

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.flag.store(true, Ordering::Release);
        self.injector.unpark();
    }
}

impl Injector<'_> {
    /// Runs a load and meanwhile does to its service what the plan says; times count from `lead` after now.
    /// What could not be done in time is left out of the list, which is in order of time.
    pub(crate) fn during<T>(&self, lead: Nanos, load: impl FnOnce() -> T) -> (T, Vec<Done>) {
        let begin = Instant::now() + Duration::from(lead);
        let over = AtomicBool::new(false);
        let done = Mutex::new(Vec::new());
        // Here, not in the injector: what happens until that runs is news as well.
        let known = self.rig.events().len();
        let found = std::thread::scope(|scope| {
            let injecting = scope.spawn(|| {
                // Refused to ordinary users; then a fault takes longer to happen on a busy host.
                let _ = vtax_sys::sched::react_at_once();
                self.inject_all(begin, known, &over, &done);
            });
            let _over = Over { flag: &over, injector: injecting.thread() };
            load()
        });
        let mut done = into_inner(done);
        done.sort_by_key(|done| done.at_unix_ns);
        (found, done)
    }

    fn inject_all(&self, begin: Instant, known: usize, over: &AtomicBool, done: &Mutex<Vec<Done>>) {
        std::thread::scope(|scope| {
            let mut revived = known;
            let mut left = self.faults.iter().enumerate();
            let mut next = left.next();
            while !over.load(Ordering::Acquire) {
                let events = self.rig.events();
                let restarted = |e: &PairEvent| matches!(e.kind, PairEventKind::Restarted);
                if events.iter().skip(revived).any(restarted) {
                    scope.spawn(|| self.revive_service());
                }
                revived = events.len();
                let wait = match next {
                    Some((number, fault)) => {
                        let due = begin + Duration::from(fault.at);
                        let wait = due.saturating_duration_since(Instant::now());
                        if wait.is_zero() {
                            let inject = move || {
                                let happened = self.inject(number, *fault);
                                lock(done).push(happened);
                            };
                            if fault.kind.takes_long() {
                                scope.spawn(inject);
                            } else {
                                inject();
                            }
                            next = left.next();
                        }
                        wait.min(LOOK_EVERY)
                    }
                    None => LOOK_EVERY,
                };
                std::thread::park_timeout(wait);
            }
        });
    }

    /// A failure is seen in the figures: requests aren't answered.
    fn revive_service(&self) {
        let _ = (self.revive)();
    }

    fn inject(&self, number: usize, fault: Fault) -> Done {
        let protected = self.rig.protected();
        let tried = unix_time();
        let (Hit { host, at, undone }, refused) = match self.rig.inject(fault.kind) {
            Ok(hit) => {
                let what = format!("measuring, after {}", fault.kind.words());
                self.observer.observe(&RunEvent::Phase { what: &what });
                (hit, None)
            }
            Err(why) => (Hit::elsewhere(tried), Some(why)),
        };
        Done { number, fault, at_unix_ns: at.0, protected, host, refused, undone }
    }
}

/// Something that was done to routers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OnTopology {
    pub(crate) fault: TopologyFault,
    /// When, time since 1970 on this side's clock.
    pub(crate) here: Nanos,
    /// The same moment on the clock of the node that holds the routers.
    pub(crate) there: Nanos,
}

/// A testbed as something that can be broken.
pub(crate) struct Breakable<'a> {
    sut: &'a Node,
    /// The agent in it.
    agent: &'a Client,
    path: PathSwitch,
    /// The agent of the node that holds the path's routers.
    routers: Option<&'a Client>,
    /// What was done to them, in order.
    done: Mutex<Vec<OnTopology>>,
    /// Hosts whose cable to the link for checkpoints is out.
    unplugged: Mutex<Vec<String>>,
}

impl<'a> Breakable<'a> {
    pub(crate) fn new(
        sut: &'a Node,
        agent: &'a Client,
        path: PathSwitch,
        routers: Option<&'a Client>,
    ) -> Self {
        Self { sut, agent, path, routers, done: Mutex::default(), unplugged: Mutex::default() }
    }

    /// What was done to the path's routers, in order.
    pub(crate) fn on_routers(&self) -> Vec<OnTopology> {
        lock(&self.done).clone()
    }

    /// A guest that holds routers has a clock of its own, so the time is this side's, before it was asked for.
    fn on_topology(&self, fault: TopologyFault) -> Result<Hit, String> {
        let agent = self.routers.ok_or("the path has no routers")?;
        let here = unix_time();
        let there = agent.inject_event(fault.event()).map_err(|e| chain(&e))?;
        lock(&self.done).push(OnTopology { fault, here, there });
        Ok(Hit::elsewhere(here))
    }

    fn pair(&self) -> Result<&FtPair, String> {
        self.sut.pair().ok_or_else(|| "the system under test is on no host of its own".to_owned())
    }

    fn kill(&self, target: FaultTarget) -> Result<Hit, String> {
        match (target, self.sut.pair()) {
            (FaultTarget::SecondaryHost, _) => struck(self.pair()?.kill_host(Side::Secondary)),
            (FaultTarget::Sut, None) => at_once(|| self.sut.kill_all()),
            _ => struck(self.pair()?.kill_host(Side::Primary)),
        }
    }

    fn hang(&self, target: FaultTarget) -> Result<Hit, String> {
        match (target, self.sut.pair()) {
            (FaultTarget::Sut, None) => at_once(|| self.sut.stop_all()),
            _ => struck(self.pair()?.hang_host(Side::Primary)),
        }
    }

    fn cut(&self, target: FaultTarget) -> Result<Hit, String> {
        if target == FaultTarget::Path {
            return at_once(|| self.path.cut());
        }
        let hit = struck(self.pair()?.cut_link(Side::Secondary))?;
        lock(&self.unplugged).extend(hit.host.clone());
        Ok(hit)
    }

    /// Has the agent do something to the RAID's disks.
    fn disk(&self, change: fn(&Client) -> Result<(), AgentError>) -> Result<Hit, String> {
        let at = unix_time();
        change(self.agent).map(|()| Hit::elsewhere(at)).map_err(|e| chain(&e))
    }

    fn hand_over(&self) -> Result<Hit, String> {
        let handed = self.pair()?.hand_over().map_err(words)?;
        Ok(Hit { host: Some(handed.from), at: handed.began, undone: None })
    }

    /// What could not be restored, where the rest was.
    fn restore(&self, target: FaultTarget) -> Result<Option<String>, String> {
        match (target, self.sut.pair()) {
            (FaultTarget::Path, _) => self.path.restore().map(|()| None).map_err(words),
            (FaultTarget::Sut, None) => self.sut.wake_all().map(|()| None).map_err(words),
            _ => self.mend_hosts(target == FaultTarget::FtLink),
        }
    }

    /// Plugs cables in again, and unless that is all, switches on what is off and wakes what hangs.
    fn mend_hosts(&self, cables_only: bool) -> Result<Option<String>, String> {
        let pair = self.pair()?;
        let unplugged = std::mem::take(&mut *lock(&self.unplugged));
        let mut hosts = unplugged.clone();
        let down = pair.hosts_down();
        if cables_only {
            hosts.retain(|host| !down.contains(host));
        } else {
            hosts.extend(down);
        }
        hosts.sort_unstable();
        hosts.dedup();
        let Mended { left, told } = mend_each(hosts, |host| pair.restore(host).map_err(words));
        lock(&self.unplugged).extend(left.into_iter().filter(|host| unplugged.contains(host)));
        told
    }
}

/// What came of mending several hosts.
#[derive(Debug, PartialEq, Eq)]
struct Mended {
    /// Those that could not be mended.
    left: Vec<String>,
    /// Why, where some were mended; an error where none was.
    told: Result<Option<String>, String>,
}

/// Mends each of these hosts, whatever comes of the others.
fn mend_each(hosts: Vec<String>, mend: impl Fn(&str) -> Result<(), String>) -> Mended {
    let count = hosts.len();
    let failed = hosts.into_iter().filter_map(|host| mend(&host).err().map(|why| (host, why)));
    let (left, reasons): (Vec<String>, Vec<String>) = failed.unzip();
    let told = match left.len() {
        0 => Ok(None),
        all if all == count => Err(reasons.join("; ")),
        _ => Ok(Some(reasons.join("; "))),
    };
    Mended { left, told }
}

impl Rig for Breakable<'_> {
    fn inject(&self, kind: FaultKind) -> Result<Hit, String> {
        match kind {
            FaultKind::Kill(target) => self.kill(target),
            FaultKind::Hang(target) => self.hang(target),
            FaultKind::Cut(target) => self.cut(target),
            FaultKind::Restore(target) => {
                let at = unix_time();
                self.restore(target).map(|undone| Hit { undone, ..Hit::elsewhere(at) })
            }
            FaultKind::Failover(_) => self.hand_over(),
            FaultKind::Fail(_) => self.disk(Client::fail_disk),
            FaultKind::Replace(_) => self.disk(Client::replace_disk),
            FaultKind::Topology(fault) => self.on_topology(fault),
        }
    }

    fn protected(&self) -> Option<bool> {
        self.sut.pair().map(FtPair::is_armed)
    }

    fn events(&self) -> Vec<PairEvent> {
        self.sut.pair().map(FtPair::events).unwrap_or_default()
    }
}

fn words(error: LabError) -> String {
    chain(&error)
}

fn struck(done: Result<Struck, LabError>) -> Result<Hit, String> {
    done.map(Hit::from).map_err(words)
}

/// Does what takes hold as soon as it is begun.
fn at_once(fault: impl FnOnce() -> Result<(), LabError>) -> Result<Hit, String> {
    let at = unix_time();
    fault().map(|()| Hit::elsewhere(at)).map_err(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_cannot_be_mended_keeps_no_other_from_it() {
        let tried = Mutex::new(Vec::new());
        let mend = |broken: &'static [&'static str]| {
            lock(&tried).clear();
            mend_each(["a", "b", "c"].map(str::to_owned).to_vec(), |host| {
                lock(&tried).push(host.to_owned());
                if broken.contains(&host) { Err(format!("{host} burns")) } else { Ok(()) }
            })
        };
        assert_eq!(mend(&[]), Mended { left: Vec::new(), told: Ok(None) });
        let part = mend(&["a", "b"]);
        assert_eq!(part.left, ["a", "b"], "their cables are still out");
        assert_eq!(part.told, Ok(Some("a burns; b burns".to_owned())));
        assert_eq!(*lock(&tried), ["a", "b", "c"]);
        assert_eq!(mend(&["a", "b", "c"]).told, Err("a burns; b burns; c burns".to_owned()));
        assert_eq!(mend_each(Vec::new(), |_| Ok(())).told, Ok(None), "there was nothing to mend");
    }
}
