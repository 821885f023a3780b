//! What a supervisor makes of heartbeats. Pure.

use std::time::Duration;

use vtax_vm::ft::heartbeat::{Path, Verdict};

use super::model::PairMode;

/// How many times the detector's timeout counts while the guest isn't protected, and how soon after that
/// it counts once again.
pub(super) const WHILE_UNPROTECTED: u32 = 10;
pub(super) const SETTLED_AFTER: Duration = Duration::from_millis(250);

/// How many times the detector's timeout counts where the guest has been protected for this long, if it is. Copying a
/// guest fills the link and the CPUs, and who isn't protected yet gains nothing by an early verdict. A guest that is
/// booted again needs no protection.
pub(super) fn patience(mode: PairMode, armed_for: Option<Duration>) -> u32 {
    let settled = armed_for.is_some_and(|time| time > SETTLED_AFTER);
    if settled || mode == PairMode::Restart { 1 } else { WHILE_UNPROTECTED }
}

/// What is known of a host already.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Known {
    /// It was fenced, and not heard of since.
    pub(super) down: bool,
    /// Its link is broken.
    pub(super) lost_link: bool,
    /// It is off.
    pub(super) off: bool,
}

/// What a verdict about a host means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ruling {
    /// Nothing new.
    Nothing,
    /// It has failed, unless this machine is what was silent.
    HostFailed,
    /// Its link broke.
    LinkLost,
    /// It is there again, or its link is.
    Back,
}

/// Rules on a verdict. `primary_beats`: whether the host that runs the guest was heard of lately.
pub(super) fn ruling(verdict: Verdict, known: Known, primary_beats: impl FnOnce() -> bool) -> Ruling {
    let Known { down, lost_link, off } = known;
    match verdict {
        Verdict::Suspect if !down => Ruling::HostFailed,
        // A copy that is given up while the primary is dying can't take over: its beats will tell.
        Verdict::PathLost(Path::FtLink) if !lost_link && !down && primary_beats() => Ruling::LinkLost,
        // Beats from before its fence may still have waited to be heard.
        Verdict::Alive if (lost_link || down) && !off => Ruling::Back,
        _ => Ruling::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use vtax_vm::ft::Mode;
    use vtax_vm::ft::heartbeat::{Detector, DetectorSettings};

    use super::*;

    #[test]
    fn who_is_booted_again_is_missed_as_soon_as_who_is_protected() {
        let ms = |ms| Some(Duration::from_millis(ms));
        let kept = PairMode::Checkpoints(Mode::Kemari);
        assert_eq!((patience(kept, None), patience(kept, ms(100)), patience(kept, ms(251))), (10, 10, 1));
        assert_eq!((patience(PairMode::Restart, None), patience(PairMode::None, None)), (1, 10));
    }

    #[test]
    fn what_is_known_already_is_no_news() {
        let rule = |verdict, known| ruling(verdict, known, || true);
        let (fresh, down) = (Known::default(), Known { down: true, ..Known::default() });
        let broken = Known { lost_link: true, ..fresh };
        let link = Verdict::PathLost(Path::FtLink);
        assert_eq!(
            (rule(Verdict::Suspect, fresh), rule(Verdict::Suspect, down)),
            (Ruling::HostFailed, Ruling::Nothing)
        );
        assert_eq!((rule(link, fresh), rule(link, broken)), (Ruling::LinkLost, Ruling::Nothing));
        assert_eq!(rule(link, down), Ruling::Nothing);
        assert_eq!(rule(Verdict::PathLost(Path::Second), fresh), Ruling::Nothing);
        assert_eq!(
            (rule(Verdict::Alive, down), rule(Verdict::Alive, fresh)),
            (Ruling::Back, Ruling::Nothing)
        );
        assert_eq!(rule(Verdict::Alive, Known { off: true, ..down }), Ruling::Nothing, "its last beats");
    }

    /// The link of the copy's host is cut, and soon afterwards the primary's host dies, each at any moment between two
    /// beats. The copy is still good: what the primary sent since its last checkpoint is held back.
    #[test]
    fn a_copy_is_not_given_up_while_the_primary_falls_silent() {
        let settings = DetectorSettings::default();
        let (interval, timeout) = (settings.interval.0 / 1_000_000, settings.timeout.0 / 1_000_000);
        let mut kept = 0;
        for cut in 1_000..1_000 + interval {
            for died in (cut..cut + 120).step_by(7) {
                let given_up = first_ruling(cut, died, interval);
                // A primary that beat until then was believed to live.
                let last = (died - 1) / interval * interval;
                let silent_for = given_up.map(|at| at.saturating_sub(last));
                assert!(silent_for.is_none_or(|ms| ms <= timeout / 2), "{cut} {died}: {silent_for:?}");
                assert!(died > cut + interval || given_up.is_none(), "{cut} {died}");
                kept += usize::from(given_up.is_none());
            }
        }
        assert!(kept > 0);
    }

    /// When the copy is given up, where it is before the primary's host is known to have failed. Milliseconds.
    fn first_ruling(cut: u64, died: u64, interval: u64) -> Option<u64> {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let (mut primary, mut copy) =
            (Detector::new(DetectorSettings::default()), Detector::new(DetectorSettings::default()));
        for now in 0..died + 1_000 {
            if now % interval == 0 {
                for path in Path::ALL {
                    if now < died {
                        primary.beat(path, at(now));
                    }
                    if now < cut || path == Path::Second {
                        copy.beat(path, at(now));
                    }
                }
            }
            let fresh = Known::default();
            let beats = || primary.beats(at(now));
            if ruling(primary.verdict(at(now), 1), fresh, beats) == Ruling::HostFailed {
                return None;
            }
            if ruling(copy.verdict(at(now), 1), fresh, beats) == Ruling::LinkLost {
                return Some(now);
            }
        }
        panic!("nobody noticed anything");
    }
}
