//! A trial whose service has ended by itself: its load is not waited for as long as it would wait for answers.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::heard::Heard;

/// How long a load may go on after its service: long enough for one whose requests fail to come to its end and tell how they
/// failed. That of a volume that a kernel has mounted waits for its server for as long as it is allowed to take.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(200);

/// Does the trial's work, and `end`s it where it still goes on a minute after a service has ended by itself.
pub(super) fn while_served<T>(heard: &Heard, end: impl FnOnce() + Send, work: impl FnOnce() -> T) -> T {
    bounded(heard, PATIENCE, end, work)
}

fn bounded<T>(heard: &Heard, patience: Duration, end: impl FnOnce() + Send, work: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        // Closed when the work is over, also by a panic.
        let (_at_work, over) = channel::<()>();
        scope.spawn(move || {
            if outlives_service(heard, patience, &over) {
                end();
            }
        });
        work()
    })
}

/// Waits until the work is over, or has gone on for too long after a service.
fn outlives_service(heard: &Heard, patience: Duration, over: &Receiver<()>) -> bool {
    let mut since = None;
    while over.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
        if heard.has_died() && since.get_or_insert_with(Instant::now).elapsed() >= patience {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use vtax_agent::message::{Event, ServiceId};

    use super::*;

    fn died() -> Event {
        Event::ServiceDied { id: ServiceId(1), service: "ganesha".to_owned(), status: "signal 9".to_owned() }
    }

    #[test]
    fn work_that_waits_for_a_dead_service_is_ended() {
        let heard = Heard::new();
        heard.listener("sut")(died());
        let (end, ended) = channel();
        let ended = bounded(&heard, Duration::ZERO, move || end.send(()).unwrap(), || ended.recv());
        assert_eq!(ended, Ok(()));
        assert_eq!(heard.died().as_deref(), Some("ganesha ended by itself: signal 9"));
    }

    #[test]
    fn work_that_is_over_in_time_is_not() {
        let heard = Heard::new();
        bounded(&heard, Duration::ZERO, || panic!("ended"), || thread::sleep(PAUSE * 2));
        heard.listener("sut")(died());
        assert_eq!(bounded(&heard, Duration::from_secs(600), || panic!("ended"), || 7), 7);
    }
}
