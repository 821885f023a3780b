//! When a checkpoint may begin: never while the copy is still being stopped.
//!
//! QEMU starts the copy after each checkpoint, and it is stopped again ([`super::Mode::runs_both`]). QEMU counts a guest as stopped as
//! soon as it has been asked to stop, while its CPUs still run (`do_vm_stop` in QEMU's `system/cpus.c`). A checkpoint that comes in
//! between is loaded under a running CPU, which can break the copy (`docs/fault-tolerance.md`). So QEMU begins no checkpoint by itself
//! when a packet waits. It says so here, and is asked for one once the copy stands still. Only its timer still begins checkpoints by itself.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use vtax_sys::sync::lock;
use vtax_sys::watchers;

use crate::error::{Result, VmError};
use crate::qmp::{Holder, Orders};

/// Asks a primary for checkpoints, one at a time.
#[derive(Debug)]
pub(super) struct Gate {
    primary: Orders,
    /// What sets the time between checkpoints also asks for one now.
    arguments: Value,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    stage: Stage,
    /// The copy stands still, and no checkpoint is on its way to it.
    open: bool,
    /// A checkpoint was asked for that is not complete yet.
    asked: bool,
    /// One more is wanted as soon as it may begin.
    wanted: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Stage {
    /// The guest is being copied: QEMU would drop what it is asked for.
    #[default]
    Copying,
    Protected,
    /// The protection ends.
    Over,
}

impl Gate {
    /// `primary` sends the primary's QEMU commands; `arguments` are those of QMP's `migrate-set-parameters`.
    pub(super) fn new(primary: Orders, arguments: Value) -> Arc<Self> {
        Arc::new(Self { primary, arguments, state: Mutex::default() })
    }

    /// The first copy is complete: checkpoints may be made from now on, and the first is asked for.
    pub(super) fn begin(&self) {
        let mut state = lock(&self.state);
        (state.stage, state.wanted) = (Stage::Protected, true);
        self.ask(&mut state);
    }

    /// Asks for a checkpoint that begins from now on.
    pub(super) fn demand(&self) {
        let mut state = lock(&self.state);
        state.wanted = true;
        self.ask(&mut state);
    }

    /// Once this has returned, the primary is asked for nothing any more.
    pub(super) fn close(&self) {
        lock(&self.state).stage = Stage::Over;
    }

    /// A packet waits for a checkpoint. Said again and again while it does, so one that is on its way is enough.
    fn packet_waits(&self) {
        let mut state = lock(&self.state);
        if !state.asked {
            state.wanted = true;
            self.ask(&mut state);
        }
    }

    fn ask(&self, state: &mut State) {
        if state.stage == Stage::Protected && state.open && state.wanted {
            // Closed until the copy has it and stands still again: the next packet may be heard of before the copy's start is.
            (state.open, state.asked, state.wanted) = (false, true, false);
            self.primary.give("migrate-set-parameters", &self.arguments);
        }
    }

    /// Listens on a stream on which QEMU's comparer says that a packet waits, until it ends.
    pub(super) fn listen(self: &Arc<Self>, mut stream: UnixStream) -> Result<()> {
        let gate = Arc::clone(self);
        let work = move || {
            let mut bytes = [0; 1024];
            // There is only one thing that it says, however many times.
            while matches!(stream.read(&mut bytes), Ok(1..)) {
                gate.packet_waits();
            }
        };
        watchers::spawn("gate", work).map(drop).map_err(VmError::io("start", "thread"))
    }
}

impl Holder for Gate {
    fn runs(&self) {
        let mut state = lock(&self.state);
        (state.open, state.asked) = (false, false);
    }

    fn stands_still(&self) {
        let mut state = lock(&self.state);
        state.open = true;
        self.ask(&mut state);
    }
}

/// What sets the time between two checkpoints.
pub(super) fn delay(milliseconds: u64) -> Value {
    json!({ "x-checkpoint-delay": milliseconds })
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::sync::mpsc::{Receiver, channel};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::qmp::tests::connected;

    const PATIENCE: Duration = Duration::from_secs(20);

    /// A gate, the stream of its packets, and what its primary is asked.
    fn gate() -> (Arc<Gate>, UnixStream, Receiver<String>, crate::qmp::Qmp) {
        let (qmp, theirs, _events) = connected();
        let (sender, asked) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(theirs).lines().map_while(std::io::Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let gate = Gate::new(qmp.orders(), delay(1000));
        let (packets, theirs) = UnixStream::pair().unwrap();
        gate.listen(theirs).unwrap();
        (gate, packets, asked, qmp)
    }

    /// The same once the first checkpoint has been asked for.
    fn protected() -> (Arc<Gate>, UnixStream, Receiver<String>, crate::qmp::Qmp) {
        let (gate, packets, asked, qmp) = gate();
        gate.begin();
        gate.stands_still();
        is_asked(&asked);
        (gate, packets, asked, qmp)
    }

    fn is_asked(asked: &Receiver<String>) {
        let line = asked.recv_timeout(PATIENCE).unwrap();
        assert_eq!(line, r#"{"arguments":{"x-checkpoint-delay":1000},"execute":"migrate-set-parameters"}"#);
    }

    fn is(gate: &Gate, state: impl Fn(&State) -> bool) -> bool {
        state(&lock(&gate.state))
    }

    fn wait_until(gate: &Gate, state: impl Fn(&State) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !is(gate, &state) {
            assert!(Instant::now() < until, "{gate:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_packet_waits_until_the_copy_stands_still() {
        let (gate, mut packets, asked, _qmp) = protected();
        gate.runs();
        packets.write_all(b"\0\0\0\x0dDO_CHECKPOINT").unwrap();
        wait_until(&gate, |state| state.wanted);
        assert!(asked.try_recv().is_err());
        gate.stands_still();
        is_asked(&asked);
        gate.runs();
        gate.stands_still();
        // Nothing waits now.
        assert!(is(&gate, |state| state.open));
        gate.packet_waits();
        is_asked(&asked);
        assert!(asked.try_recv().is_err());
    }

    #[test]
    fn a_packet_that_is_heard_of_before_the_copy_starts_waits_as_well() {
        let (gate, _packets, asked, _qmp) = protected();
        // It says so until the checkpoint begins, and the next packet may before the copy's start is heard of.
        gate.packet_waits();
        assert!(is(&gate, |state| !state.open && !state.wanted));
        gate.runs();
        gate.packet_waits();
        assert!(is(&gate, |state| !state.open && state.wanted));
        gate.stands_still();
        is_asked(&asked);
        assert!(asked.try_recv().is_err());
    }

    #[test]
    fn what_is_demanded_during_a_checkpoint_gets_the_next_one() {
        let (gate, _packets, asked, _qmp) = protected();
        gate.demand();
        gate.demand();
        gate.runs();
        assert!(asked.try_recv().is_err());
        gate.stands_still();
        is_asked(&asked);
        gate.runs();
        gate.stands_still();
        assert!(is(&gate, |state| state.open));
    }

    #[test]
    fn nothing_is_asked_before_the_copy_is_complete_or_after_the_end() {
        let (gate, _packets, asked, qmp) = gate();
        gate.stands_still();
        gate.packet_waits();
        gate.demand();
        qmp.orders().give("query-status", &Value::Null);
        assert!(asked.recv_timeout(PATIENCE).unwrap().contains("query-status"));
        gate.begin();
        is_asked(&asked);
        gate.runs();
        gate.stands_still();
        gate.close();
        gate.packet_waits();
        gate.demand();
        qmp.orders().give("query-status", &Value::Null);
        assert!(asked.recv_timeout(PATIENCE).unwrap().contains("query-status"));
    }
}
