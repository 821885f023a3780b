//! Before and after the load: files and directories, what the server is, what is left behind.

use std::time::{Duration, Instant};

use super::NfsTarget;
use super::dialect::Dialect;
use super::link::{Link, file_of, names_of};
use super::spec::NfsSpec;
use super::wire::LinkError;
use crate::family::storage::client::random;
use crate::family::storage::pattern::MARK;
use crate::family::storage::target::{Facts, Shape, StorageError};

/// Emptying a directory may take longer than one operation.
const LONG: Duration = Duration::from_secs(300);

/// What the client calls itself: random, so that two runs of vtax don't take each other's sessions.
pub(super) fn owner(worker: usize) -> Result<Vec<u8>, StorageError> {
    let random: [u8; 8] = random().map_err(|source| StorageError::system("take random bytes", source))?;
    Ok(format!("vtax-{worker}-{:016x}", u64::from_be_bytes(random)).into_bytes())
}

fn name(spec: &NfsSpec) -> String {
    format!("nfs://{}{}", spec.address, spec.path)
}

pub(super) fn not_opened(spec: &NfsSpec, error: &LinkError) -> StorageError {
    StorageError::Open { target: name(spec), reason: error.to_string() }
}

/// Opens the files of a process; their sizes.
pub(super) fn open_files<D: Dialect>(
    link: &mut Link<D>,
    shape: &Shape,
    until: Instant,
) -> Result<Vec<u64>, LinkError> {
    let mut sizes = Vec::with_capacity(shape.files as usize);
    link.files.open.clear();
    for file in 0..shape.files {
        let (open, size) = link.open_file(&file_of(shape.worker, file), until)?;
        link.files.open.push(open);
        sizes.push(size);
    }
    link.files.names = Some(link.make_directory(&names_of(shape.worker), until)?);
    Ok(sizes)
}

/// The connection, when nothing is under way on it.
fn idle<D: Dialect>(target: &mut NfsTarget<D>) -> Result<(&mut Link<D>, &NfsSpec), StorageError> {
    let busy =
        || StorageError::Refused { reason: "operations are under way, or the connection is lost".to_owned() };
    let link = target.base.link.as_mut().filter(|link| link.dialect.is_idle()).ok_or_else(busy)?;
    Ok((link, &target.spec))
}

pub(super) fn prepare<D: Dialect>(target: &mut NfsTarget<D>) -> Result<(), StorageError> {
    let (shape, until) = (target.shape, Instant::now() + target.base.timeout.max(LONG));
    let is_own = target.own;
    let (link, spec) = idle(target)?;
    if !is_own {
        check_own(link, spec, &shape, until)?;
    }
    let present = open_files(link, &shape, until).map_err(|error| not_opened(spec, &error))?;
    let needed = u64::from(shape.files) * shape.size;
    let had: u64 = present.iter().sum();
    let has_room = match link.free() {
        Some(free) if free.saturating_add(had) < needed => {
            Err(StorageError::TooSmall { target: name(spec), needed, free: free.saturating_add(had) })
        }
        _ => Ok(()),
    };
    target.own = true;
    has_room
}

/// Refuses files that are neither empty nor begin with vtax's mark, and a directory of small files that holds something where no
/// file has the mark: it has none of its own. Makes nothing.
fn check_own<D: Dialect>(
    link: &mut Link<D>,
    spec: &NfsSpec,
    shape: &Shape,
    until: Instant,
) -> Result<(), StorageError> {
    let failed = |error: LinkError| not_opened(spec, &error);
    let foreign = |reason: &str| StorageError::Foreign { target: name(spec), reason: reason.to_owned() };
    let mut is_marked = false;
    for name in (0..shape.files).map(|file| file_of(shape.worker, file)) {
        match head(link, &name, until).map_err(failed)? {
            None => {}
            Some(head) if head == MARK.to_le_bytes() => is_marked = true,
            Some(_) => return Err(foreign("a file with the name of one of vtax's holds something else")),
        }
    }
    if is_marked {
        return Ok(());
    }
    let Some(names) = link.look_up(&names_of(shape.worker), until).map_err(failed)? else { return Ok(()) };
    if link.list(&names, until).map_err(failed)?.is_empty() {
        Ok(())
    } else {
        Err(foreign("a directory with the name of one of vtax's holds something that vtax didn't write"))
    }
}

/// The first bytes of a data file, where it is there and holds something.
fn head<D: Dialect>(link: &mut Link<D>, name: &str, until: Instant) -> Result<Option<Vec<u8>>, LinkError> {
    if link.look_up(name, until)?.is_none() {
        return Ok(None);
    }
    let (open, size) = link.open_file(name, until)?;
    let head = if size > 0 { Some(link.head(open, 8, until)?) } else { None };
    link.close(open, until)?;
    Ok(head)
}

pub(super) fn empty<D: Dialect>(target: &mut NfsTarget<D>) -> Result<(), StorageError> {
    let until = Instant::now() + target.base.timeout.max(LONG);
    let (link, spec) = idle(target)?;
    let failed = |error: LinkError| not_opened(spec, &error);
    for open in link.files.open.clone() {
        link.set_size(open, 0, until).map_err(failed)?;
    }
    empty_names(link, until).map_err(failed)
}

fn empty_names<D: Dialect>(link: &mut Link<D>, until: Instant) -> Result<(), LinkError> {
    let Some(names) = link.files.names else { return Ok(()) };
    for name in link.list(&names, until)? {
        link.remove(&names, &name, until)?;
    }
    Ok(())
}

pub(super) fn remove<D: Dialect>(target: &mut NfsTarget<D>) -> Result<(), StorageError> {
    let (shape, until) = (target.shape, Instant::now() + target.base.timeout.max(LONG));
    let owner = target.owner.clone();
    if target.base.link.is_none() {
        // After the end of a connection: one more, to remove the files.
        target.base.link = Link::open(&target.spec, &owner, 1, until).ok();
    }
    let (link, spec) = idle(target)?;
    let mut removed = || -> Result<(), LinkError> {
        link.close_all(until)?;
        // The data file's mark says whose the small files are: it goes last.
        link.files.names = Some(link.make_directory(&names_of(shape.worker), until)?);
        empty_names(link, until)?;
        link.remove_directory(&names_of(shape.worker), until)?;
        let directory = link.files.directory;
        (0..shape.files).try_for_each(|file| link.remove(&directory, &file_of(shape.worker, file), until))
    };
    removed().map_err(|error| not_opened(spec, &error))
}

/// What is known of a server and the connection to it.
pub(super) fn facts<D: Dialect>(target: &NfsTarget<D>) -> Facts {
    let counts = &target.counts;
    let counters = [
        ("calls", counts.calls),
        ("reads", counts.reads),
        ("writes", counts.writes),
        ("commits", counts.commits),
        ("late answers", counts.late),
        ("bytes sent", target.base.sent_bytes),
        ("bytes received", target.base.received_bytes),
        ("connections", target.base.connections),
    ];
    let what = match &target.base.link {
        Some(link) => {
            let (read, write) = link.longest();
            let more = link.dialect.words();
            format!("{}, reads of {read} and writes of {write} bytes{more}", D::NAME)
        }
        None => D::NAME.to_owned(),
    };
    Facts {
        what,
        // Files have bytes; the engine's records are whole sectors.
        block: 512,
        capacity: target.base.link.as_ref().and_then(Link::free),
        // Unless a write asks for more, it is only there after COMMIT.
        write_cache: Some(true),
        counters: counters
            .into_iter()
            .chain(target.base.gathered())
            .map(|(name, count)| (name.to_owned(), count))
            .collect(),
    }
}
