//! Tests of storage: one after the other in the plan's order, on the system under test's own disk or through a server.
//!
//! Without a server, the load runs on the system under test itself. The trial stays the unit: a test has one observation in it.

mod rounds;

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use vtax_agent::{AgentError, Client};
use vtax_load::storage::iscsi::{ChapSecret, IscsiSpec};
use vtax_load::storage::mounted::{MountSpec, Volume};
use vtax_load::storage::nfs::NfsSpec;
use vtax_load::storage::{LocalSpec, StorageResult, StorageSpec, StorageStep, TargetSpec};
use vtax_load::{Errors, LoadSpec, MemberAnswer, Model, Progress, Segment, Step};
use vtax_plan::model::{
    ChapMode, FailoverMeasure, GaneshaOptions, MeasureKind, NfsVersion, NfsdOptions, SambaOptions,
    ServiceKind, StorageAccess, StorageCache, StorageMeasure, StorageOperation, StorageTest, StorageWorkload,
    TgtOptions,
};
use vtax_probe::Snapshot;
use vtax_probe::delta::Interval;
use vtax_probe::layers::{Hosting, break_down};
use vtax_store::failover::FailoverLoad;
use vtax_store::record::{Finding, InvalidReason, Observation, Validity};
use vtax_store::storage::{HostStorage, ServerCache, ServerStorage, StorageFinding};
use vtax_sys::chain;
use vtax_sys::clock::unix_ms;
use vtax_units::{CpuSet, Nanos, Rate};
use vtax_vm::Cache;

use crate::failover::{self, HeldLoad};
use crate::instrument::{Ends, Instrument, Measured, Site, not_made};
use crate::observe::{Observer, RunEvent};
use crate::probes::Marks;
use crate::requests;
use crate::trial_request::TrialRequest;

/// Time at the start of a timed test that doesn't count, as a share of what does.
const WARM_UP: f64 = 0.1;
/// Time of the reads after a file was laid out.
const LAYING_OUT: Nanos = Nanos::from_millis(50);
/// The longest that reading everything back may take: a guest may have to boot before.
const READ_BACK: Nanos = Nanos::from_secs(60);
/// Intervals that one result may have; the engine refuses still more.
const MOST_INTERVALS: u64 = 1_000;
/// Where a client has mounted what is measured.
const MOUNTS: &str = "/run/vtax/mounts";

/// Directory of the host in which disks of trials are made; `None` where the service needs none.
pub(crate) fn directory(service: &ServiceKind) -> Option<PathBuf> {
    let usual = || Cache::of_user().dir().join("disks");
    match service {
        ServiceKind::Disk(options) => Some(options.directory.as_ref().map_or_else(usual, PathBuf::from)),
        other => other.serves_disk().then(usual),
    }
}

/// The instrument of tests of storage.
pub(super) struct Tests<'a> {
    workload: &'a StorageWorkload,
    service: &'a ServiceKind,
}

impl<'a> Tests<'a> {
    /// Of this workload with this service.
    pub(super) const fn new(workload: &'a StorageWorkload, service: &'a ServiceKind) -> Self {
        Self { workload, service }
    }

    /// Where the load goes.
    fn target(&self, ends: &Ends<'_>) -> TargetSpec {
        let address = ends.target;
        let mounted = self.workload.access_to(self.service) == Some(StorageAccess::Mounted);
        let mount = |volume| TargetSpec::Mounted(MountSpec { volume, place: MOUNTS.to_owned() });
        let nfs = |path: &str| match mounted {
            true => mount(Volume::Nfs { address, path: path.to_owned() }),
            false => TargetSpec::Nfs(NfsSpec::new(address, path)),
        };
        let ganesha = |options: &GaneshaOptions| match options.nfs_version {
            NfsVersion::V41 => nfs(GaneshaOptions::EXPORT),
            version @ NfsVersion::V3 => TargetSpec::Nfs(NfsSpec {
                version,
                mount_port: Some(options.mount_port),
                ..NfsSpec::new(address, GaneshaOptions::EXPORT)
            }),
        };
        let iscsi = |unit| if mounted { mount(Volume::Iscsi(unit)) } else { TargetSpec::Iscsi(unit) };
        match self.service {
            ServiceKind::Tgt(o) => iscsi(unit((o.luns, o.chap, &o.initiators), address)),
            ServiceKind::Lio(o) => iscsi(unit((o.visible, o.chap, &o.initiators), address)),
            ServiceKind::Ganesha(options) => ganesha(options),
            ServiceKind::Nfsd(_) => nfs(NfsdOptions::EXPORT),
            ServiceKind::Samba(_) => mount(Volume::Smb { address, share: SambaOptions::SHARE.to_owned() }),
            _ => {
                // A testbed for this workload has a disk; without one, opening its files fails and says so.
                let path = ends.disk.map_or_else(String::new, |path| path.to_string_lossy().into_owned());
                TargetSpec::Local(LocalSpec { path, overwrite: false })
            }
        }
    }
}

/// The units of a target, with the names and secrets that it was started with.
fn unit((luns, chap, initiators): (u32, ChapMode, &[String]), address: SocketAddr) -> IscsiSpec {
    let secret = |(name, secret): (&str, &str)| ChapSecret { name: name.into(), secret: secret.into() };
    let mut spec = IscsiSpec::new(address, TgtOptions::TARGET, 1);
    // The units were made for this trial: what is in them needn't be looked at, which takes time in a guest.
    spec.overwrite = true;
    spec.units = luns as u16;
    spec.chap = (chap != ChapMode::None).then(|| secret(TgtOptions::INITIATOR_CHAP));
    spec.mutual = (chap == ChapMode::Mutual).then(|| secret(TgtOptions::TARGET_CHAP));
    spec.initiator = initiators.first().cloned().unwrap_or(spec.initiator);
    spec
}

impl Tests<'_> {
    /// Holds the workload's one test while things break, and reads back what was acknowledged.
    fn while_things_break(
        &self,
        site: &mut Site<'_>,
        request: &TrialRequest<'_>,
        measure: &FailoverMeasure,
    ) -> Result<Measured, AgentError> {
        let Some(test) = self.workload.tests.first() else {
            return Err(not_made(request, "a storage workload without a test"));
        };
        let step = held_step(test, measure, request.rate()?, request.seed);
        let (client, observer) = (site.client, site.observer);
        // Faults come at their times from the load's start on, so the file is laid out before.
        run(client, observer, laying_out(&step))?;
        failover::measure(site, request, measure, || run(client, observer, step).map(held))
    }
}

/// A step that needs the same file, and is over at once.
fn laying_out(step: &StorageStep) -> StorageStep {
    StorageStep {
        seed: step.seed,
        ..StorageStep::new(step.shape.clone(), StorageOperation::RandomRead, LAYING_OUT)
    }
}

/// Whether the files of a test are laid out before caches beyond the load's own system are dropped: what the test lays out itself
/// would be in them. Names can't be laid out so, and after another test than one of the same data it isn't known what is there.
fn is_laid_out_before(test: &StorageTest, before: Option<&StorageTest>) -> bool {
    let is_there = before.is_some_and(|it| it.operation.needs_data() && it.shape.has_files_of(&test.shape));
    test.cache == StorageCache::Cold && test.operation.needs_data() && !is_there
}

/// Why a test can't be made that is to find a cold cache. Plans have no such tests any more, but a run that an older vtax began may have
/// them: the load refuses each, which must not cost the trial's other tests.
fn cannot_be_cold(test: &StorageTest, access: Option<StorageAccess>) -> Option<Validity> {
    let is_cold = test.cache == StorageCache::Cold && test.operation.of_names();
    (is_cold && access != Some(StorageAccess::Mounted)).then(|| Validity::Invalid {
        reason: InvalidReason::CacheNotAsAsked,
        detail: "names are forgotten only where a volume is mounted anew, so they can't be cold".to_owned(),
    })
}

/// The step of a test that is held while things break.
fn held_step(test: &StorageTest, measure: &FailoverMeasure, rate: Rate, seed: u64) -> StorageStep {
    let duration = Nanos(measure.warmup.0.saturating_add(measure.duration.0));
    StorageStep {
        model: Model::Open {
            arrivals: measure.arrivals,
            profile: vec![Segment { from: rate, to: rate, duration }],
        },
        warmup: measure.warmup,
        cache: test.cache,
        seed,
        samples: true,
        interval: requests::interval(measure),
        read_back: Some(READ_BACK),
        ..StorageStep::new(test.shape.clone(), test.operation, measure.duration)
    }
}

/// What a load while things broke came to. That what was read is wrong is what such a measure is made to find: it costs no trial.
fn held(mut result: StorageResult) -> HeldLoad {
    // What was there to disturb is no part of what was found.
    result.beside.clear();
    let load = &result.load;
    HeldLoad {
        started_unix_ns: load.started_unix_ns,
        duration: load.duration,
        course: requests::course(load),
        validity: requests::validity(load),
        load: FailoverLoad::Storage(Box::new(result)),
        phases: Vec::new(),
    }
}

impl Instrument for Tests<'_> {
    fn load(&self, ends: &Ends<'_>, request: &TrialRequest<'_>) -> LoadSpec {
        LoadSpec::Storage(StorageSpec {
            target: self.target(ends),
            // The agent is bound to the system's CPUs already.
            cpus: CpuSet::default(),
            timeout: self.workload.timeout,
            seed: request.seed,
            keep: false,
        })
    }

    fn is_on_sut(&self) -> bool {
        self.workload.access_to(self.service).is_none()
    }

    fn measure(&mut self, site: &mut Site<'_>, request: &TrialRequest<'_>) -> Result<Measured, AgentError> {
        let measure = match &request.measure.kind {
            MeasureKind::Storage(measure) => measure,
            MeasureKind::Failover(measure) => return self.while_things_break(site, request, measure),
            _ => return Err(not_made(request, "a storage workload")),
        };
        let tests = &self.workload.tests;
        let access = self.workload.access_to(self.service);
        let mut observations = Vec::with_capacity(tests.len());
        for (place, test) in tests.iter().enumerate() {
            if let Some(validity) = cannot_be_cold(test, access) {
                let (name, started_unix_ms) = (test.name.clone(), unix_ms());
                observations.push(Observation { name, started_unix_ms, validity, ..Observation::default() });
                continue;
            }
            let what = format!("{} ({} of {})", test.name, place + 1, tests.len());
            let step = step(test, measure, request.seed.wrapping_add(place as u64));
            let before = place.checked_sub(1).map(|place| &tests[place]);
            if self.has_cache_beyond(site) && is_laid_out_before(test, before) {
                run(self.loader(site), site.observer, laying_out(&step))?;
            }
            observations.push(match measure.rounds(test) {
                None => {
                    site.observer.observe(&RunEvent::Phase { what: &what });
                    self.make(site, test, step)?
                }
                Some(rule) => rounds::until_steady(rule, test.is_timed(), |round| {
                    let what = format!("{what}, round {} of at most {}", round + 1, rule.rounds);
                    site.observer.observe(&RunEvent::Phase { what: &what });
                    // Each round draws records of its own.
                    let seed = step.seed.wrapping_add(u64::from(round) << 32);
                    self.make(site, test, StorageStep { seed, ..step.clone() })
                })?,
            });
        }
        let validity = of_trial(&observations);
        // Tests cost differently; each has its own CPU time.
        Ok(Measured { observations, validity, answered: 0, answered_each: Vec::new(), phases: Vec::new() })
    }
}

/// Length of the intervals of a test that goes on for `longest` at most, where timed tests go on for `duration`.
fn interval(duration: Nanos, longest: Nanos) -> Nanos {
    let usual = Nanos((duration.0 / 20).clamp(100_000_000, 1_000_000_000));
    usual.max(Nanos(longest.0.div_ceil(MOST_INTERVALS)))
}

/// The step of a test.
fn step(test: &StorageTest, measure: &StorageMeasure, seed: u64) -> StorageStep {
    let timed = test.is_timed();
    let duration = if timed { measure.duration } else { measure.longest };
    let model = match test.rate {
        Some(at) => Model::Open {
            arrivals: at.arrivals,
            profile: vec![Segment { from: at.rate, to: at.rate, duration }],
        },
        None => Model::Closed,
    };
    let warmup = if timed { Nanos::from_secs_f64(duration.as_secs_f64() * WARM_UP) } else { Nanos::ZERO };
    StorageStep {
        model,
        warmup,
        once: !timed,
        cache: test.cache,
        seed,
        interval: interval(measure.duration, duration),
        ..StorageStep::new(test.shape.clone(), test.operation, duration)
    }
}

impl Tests<'_> {
    /// Whether files are in a cache that the load's own system can't drop: a server's, or that of the host of a virtual disk.
    fn has_cache_beyond(&self, site: &Site<'_>) -> bool {
        let of_host =
            matches!(self.service, ServiceKind::Disk(_)) && site.testbed.the_sut().node.vm().is_some();
        self.service.serves_disk() || of_host
    }

    /// The side that the load is on.
    fn loader<'s>(&self, site: &Site<'s>) -> &'s Client {
        if self.is_on_sut() { site.sut } else { site.client }
    }

    /// Makes one test.
    fn make(
        &self,
        site: &mut Site<'_>,
        test: &StorageTest,
        step: StorageStep,
    ) -> Result<Observation, AgentError> {
        let on_sut = self.is_on_sut();
        let started_unix_ms = unix_ms();
        let mut observation =
            Observation { name: test.name.clone(), started_unix_ms, ..Observation::default() };
        let mut host = HostStorage::default();
        let mut server_cache = None;
        if step.cache == StorageCache::Cold {
            if let Some(disk) = site.testbed.the_sut().node.disk().filter(|_| !on_sut) {
                let (cached, of) = site.sut.drop_files(disk.path().to_owned())?;
                server_cache = Some(ServerCache { cached, of });
            }
            match site.testbed.the_sut().node.disk().map(vtax_lab::Disk::drop_host_cache) {
                Some(Ok(dropped)) => host.dropped = dropped,
                Some(Err(error)) => drop(observation.facts.insert("cache.host".to_owned(), chain(&error))),
                None => {}
            }
        }
        host.cached_before = cached(site);
        let before = fetched(site);
        let client = client(site, on_sut);
        let mark = site.probes.mark(site.suts);
        let mut result = run(self.loader(site), site.observer, step.clone())?;
        let beside = std::mem::take(&mut result.beside);
        let end = site.probes.mark(site.suts);
        let client = client.zip(self::client(site, on_sut));
        host.fetched = before.zip(fetched(site)).map(|(before, after)| after.saturating_sub(before));
        host.cached_after = cached(site);
        host.allocated =
            site.testbed.the_sut().node.disk().and_then(vtax_lab::Disk::host_cached).map(|(_, bytes)| bytes);
        let guest = site.testbed.the_sut().node.vm().is_some();
        let cpus = &site.testbed.allocation.client;
        let client = client.map(|(start, end)| {
            let node = Interval { start: &start, end: &end };
            break_down(&Hosting::Processes { node, runtime: None }, cpus, result.bytes())
        });
        let server = mark.as_ref().ok().zip(end.as_ref().ok()).filter(|_| !on_sut);
        let server = server.map(|(mark, end)| disks(mark, end, guest));
        observation.cpu = cpu(site, mark, end, result.bytes());
        observation.validity = judge_caches(&step, &result, server_cache.as_ref());
        observation.facts.insert("storage.target".to_owned(), result.facts.what.clone());
        let host = guest.then_some(host);
        let finding = StorageFinding { result, host, server, server_cache, client, steady_state: None };
        observation.facts.extend(finding.answered().map(|words| ("cache.answered".to_owned(), words)));
        observation.result = Some(Finding::Storage(Box::new(finding)));
        note_beside(&mut observation, &beside);
        Ok(observation)
    }
}

/// What the other systems answered meanwhile. Where one's load could not be produced, or nothing of it succeeded, the test was
/// not disturbed as it was to be.
fn note_beside(observation: &mut Observation, beside: &[MemberAnswer]) {
    for MemberAnswer { member, result, .. } in beside {
        let seconds = result.duration.as_secs_f64().max(f64::EPSILON);
        let (counts, per_second) = (&result.counts, |count: u64| count as f64 / seconds);
        let words = format!(
            "{:.1} answers/s, {}, {:.0} bytes/s received, {:.0} bytes/s sent",
            per_second(counts.ok),
            failed(&counts.errors),
            per_second(counts.bytes_received),
            per_second(counts.bytes_sent)
        );
        observation.facts.insert(format!("beside.{member}"), words);
        let theirs = requests::validity(result);
        if let (Validity::Valid, Validity::Invalid { reason, detail }) = (&observation.validity, &theirs) {
            let detail = format!("{member}: {detail}");
            observation.validity = Validity::Invalid { reason: *reason, detail };
        }
    }
}

/// How many requests failed, and how: `64 failed (64 reset)`.
fn failed(errors: &Errors) -> String {
    let found = errors.classes().into_iter().filter(|(_, count)| *count > 0);
    let classes: Vec<String> = found.map(|(class, count)| format!("{count} {class}")).collect();
    match classes.is_empty() {
        true => "0 failed".to_owned(),
        false => format!("{} failed ({})", errors.total(), classes.join(", ")),
    }
}

fn run(loader: &Client, observer: &dyn Observer, step: StorageStep) -> Result<StorageResult, AgentError> {
    let within = step.longest();
    let mut last = Progress::default();
    loader.run_step(Step::Storage(Box::new(step)), within, &mut |progress| {
        let lately = progress.since(&last);
        let seconds = lately.elapsed.as_secs_f64();
        if seconds > 0.0 {
            observer.observe(&RunEvent::Rate { rate: Rate(lately.ok as f64 / seconds) });
        }
        last = *progress;
    })
}

/// The client's side now, where the load is on it and it is no virtual machine, whose hypervisor nobody watches.
fn client(site: &Site<'_>, on_sut: bool) -> Option<Snapshot> {
    let watched = !on_sut && site.testbed.client.vm().is_none();
    watched.then(|| site.client.snapshot().ok()).flatten()
}

/// CPU time of the system under test while so many bytes were moved. Probes that fail cost the breakdown, not the test.
fn cpu(
    site: &Site<'_>,
    start: Result<Marks, String>,
    end: Result<Marks, String>,
    bytes: u64,
) -> Option<vtax_probe::layers::CpuBreakdown> {
    let (start, end) = (start.ok()?, end.ok()?);
    (bytes > 0).then(|| site.probes.between(&start, &end, bytes))
}

/// Bytes of a guest's disk that the host's page cache holds.
fn cached(site: &Site<'_>) -> Option<u64> {
    site.testbed.the_sut().node.disk().and_then(vtax_lab::Disk::host_cached).map(|(cached, _)| cached)
}

/// Bytes that a guest's hypervisor has fetched from the host's storage.
fn fetched(site: &Site<'_>) -> Option<u64> {
    let pid = site.testbed.the_sut().node.vm()?.pid();
    let text = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("read_bytes:")?.trim().parse().ok())
}

/// What the server's side did to its disks between two marks.
fn disks(mark: &Marks, end: &Marks, guest: bool) -> ServerStorage {
    let (read, written) = mark.disks_until(end);
    ServerStorage { read, written, shared: !guest }
}

/// Whether a test counts, the server's cache looked at too where it was to be cold.
fn judge_caches(step: &StorageStep, result: &StorageResult, server: Option<&ServerCache>) -> Validity {
    match (judge(step, result), server.and_then(ServerCache::is_not_cold)) {
        (Validity::Valid, Some(detail)) => {
            Validity::Invalid { reason: InvalidReason::CacheNotAsAsked, detail }
        }
        (validity, _) => validity,
    }
}

/// Whether a test counts.
fn judge(step: &StorageStep, result: &StorageResult) -> Validity {
    let invalid = |reason, detail| Validity::Invalid { reason, detail };
    if let Some(why) = result.trouble() {
        let reason = match result.verified.wrong() {
            0 => InvalidReason::NothingSucceeded,
            _ => InvalidReason::DataWrong,
        };
        return invalid(reason, why);
    }
    if let Some(why) = result.cache_is_not(step) {
        return invalid(InvalidReason::CacheNotAsAsked, why);
    }
    // In a closed loop on a fast cache the processor is the limit, and that is the answer.
    match (&step.model, &result.load.generator.limited) {
        (Model::Open { .. }, Some(why)) => invalid(InvalidReason::GeneratorLimited, why.clone()),
        _ => Validity::Valid,
    }
}

/// A trial counts where one of its tests does and none read wrong data: then none of the others is to be trusted.
fn of_trial(tests: &[Observation]) -> Validity {
    let mut first = None;
    let mut counts = false;
    for test in tests {
        match &test.validity {
            Validity::Valid => counts = true,
            Validity::Invalid { reason, detail } => {
                let told = Validity::Invalid { reason: *reason, detail: format!("{}: {detail}", test.name) };
                if *reason == InvalidReason::DataWrong {
                    return told;
                }
                first.get_or_insert(told);
            }
        }
    }
    first.filter(|_| !counts).unwrap_or(Validity::Valid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_with_their_classes() {
        assert_eq!(failed(&Errors::default()), "0 failed");
        let errors = Errors { reset: 60, refused: 4, ..Errors::default() };
        assert_eq!(failed(&errors), "64 failed (4 refused, 60 reset)");
    }

    fn test(validity: Validity) -> Observation {
        Observation { name: "read".to_owned(), validity, ..Observation::default() }
    }

    fn invalid(reason: InvalidReason) -> Validity {
        Validity::Invalid { reason, detail: "so".to_owned() }
    }

    #[test]
    fn wrong_data_costs_the_trial_a_cold_cache_only_the_test() {
        let warm = invalid(InvalidReason::CacheNotAsAsked);
        assert_eq!(of_trial(&[test(Validity::Valid), test(warm.clone())]), Validity::Valid);
        assert!(matches!(of_trial(&[test(warm)]), Validity::Invalid { .. }));
        let wrong = of_trial(&[test(Validity::Valid), test(invalid(InvalidReason::DataWrong))]);
        assert!(matches!(wrong, Validity::Invalid { reason: InvalidReason::DataWrong, .. }));
    }

    #[test]
    fn cold_tests_find_their_files_laid_out_before_caches_are_dropped() {
        let from = |services: &str, operations: &str, sweep: &str| {
            let plan = format!(
                "vtax: 1\nname: t\nbaseline: native\nenvironments: native\nservices: {services}\n\
                 workload: {{storage: {{operations: {operations}, size: 64KiB, files: 5, cache: cold{sweep}}}}}\n\
                 measure: storage\n"
            );
            let plan =
                vtax_plan::parse("t", plan.as_bytes(), &[] as &[&str]).unwrap_or_else(|e| panic!("{e}"));
            let tests = plan.cells[0].workload.model().storage_tests();
            let before = |place: usize| place.checked_sub(1).map(|place| &tests[place]);
            let tests = tests.iter().enumerate();
            tests.map(|(place, test)| is_laid_out_before(test, before(place))).collect::<Vec<_>>()
        };
        let of = |operations: &str, sweep: &str| from("disk", operations, sweep);
        // Another record makes another file; small files take the place of the data.
        assert_eq!(of("random-read", ", record: [4KiB, 64KiB]"), [true, true]);
        let mounted = "{samba: {backend: disk}}";
        let operations = "[random-read, create, random-read]";
        assert_eq!(from(mounted, operations, ", record: 64KiB"), [true, false, true]);
        // A test may end before it has written all of its file.
        assert_eq!(of("[write, read, rewrite]", ""), [false, true, false]);
        assert_eq!(of("random-read", ", direct: [false, true]"), [true, false]);
    }

    #[test]
    fn of_an_older_plan_only_cold_tests_of_names_are_not_made() {
        let plan = "vtax: 1\nname: t\nbaseline: native\nenvironments: native\nservices: disk\n\
                    workload: {storage: {operations: [random-read, create], size: 64KiB, record: 64KiB}}\n\
                    measure: storage\n";
        let plan = vtax_plan::parse("t", plan.as_bytes(), &[] as &[&str]).unwrap_or_else(|e| panic!("{e}"));
        let mut tests = plan.cells[0].workload.model().storage_tests().to_vec();
        let made = |tests: &[StorageTest], access| -> Vec<bool> {
            tests.iter().map(|test| cannot_be_cold(test, access).is_none()).collect()
        };
        assert_eq!(made(&tests, None), [true, true]);
        // Such a plan is refused today.
        tests.iter_mut().for_each(|test| test.cache = StorageCache::Cold);
        assert_eq!(made(&tests, None), [true, false]);
        assert_eq!(made(&tests, Some(StorageAccess::Protocol)), [true, false]);
        assert_eq!(made(&tests, Some(StorageAccess::Mounted)), [true, true]);
    }

    #[test]
    fn a_load_with_faults_finds_its_file_laid_out_and_is_read_back() {
        let plan = "vtax: 1\nname: t\nbaseline: vm-kemari\nenvironments: {vm: {fault_tolerance: kemari}}\nservices: tgt\n\
                    workload: {storage: {operations: mix-30, size: 1MiB, depth: 8}}\n\
                    measure: {failover: {load: 40/s, duration: 5s}}\nfaults: {at: 1s, kill: primary-host}\n";
        let plan = vtax_plan::parse("t", plan.as_bytes(), &[] as &[&str]).unwrap_or_else(|e| panic!("{e}"));
        let test = &plan.cells[0].workload.model().storage_tests()[0];
        let MeasureKind::Failover(measure) = &plan.measures[0].kind else { unreachable!() };
        let held = held_step(test, measure, Rate(40.0), 1);
        let before = laying_out(&held);
        assert!(held.samples && held.read_back.is_some() && !held.once);
        // The same file, so that it is there when the load starts; nothing is written again.
        assert_eq!((&before.shape, before.read_back), (&held.shape, None));
        assert_eq!(before.operation, StorageOperation::RandomRead);
        assert!(held.check().is_ok() && before.check().is_ok());
    }

    #[test]
    fn sequential_tests_end_with_their_records_and_random_ones_with_their_time() {
        let plan = "vtax: 1\nname: t\nbaseline: native\nenvironments: native\n\
                    workload: {storage: {operations: [write, random-read]}}\nmeasure: {storage: {duration: 2s}}\n";
        let plan = vtax_plan::parse("t", plan.as_bytes(), &[] as &[&str]).unwrap_or_else(|e| panic!("{e}"));
        let workload = plan.cells[0].workload.model().storage_tests();
        let MeasureKind::Storage(measure) = &plan.measures[0].kind else { unreachable!() };
        let steps: Vec<StorageStep> = workload.iter().map(|test| step(test, measure, 1)).collect();
        assert!(steps[0].once && !steps[1].once);
        assert_eq!(steps[1].duration, Nanos::from_secs(2));
        assert!(steps.iter().all(|step| step.check().is_ok()));
    }

    /// Each trial of such plans was refused, as it had too many intervals.
    #[test]
    fn tests_may_go_on_for_as_long_as_plans_may_ask() {
        for measure in ["{duration: 2s, longest: 24h}", "{duration: 24h, longest: 24h}"] {
            let plan = format!(
                "vtax: 1\nname: t\nbaseline: native\nenvironments: native\n\
                 workload: {{storage: {{operations: [write, random-read]}}}}\nmeasure: {{storage: {measure}}}\n"
            );
            let plan =
                vtax_plan::parse("t", plan.as_bytes(), &[] as &[&str]).unwrap_or_else(|e| panic!("{e}"));
            let MeasureKind::Storage(measure) = &plan.measures[0].kind else { unreachable!() };
            for test in plan.cells[0].workload.model().storage_tests() {
                step(test, measure, 1).check().unwrap_or_else(|e| panic!("{}: {e}", test.name));
            }
        }
    }
}
