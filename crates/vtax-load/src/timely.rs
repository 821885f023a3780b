//! Threads that send at times they were given: what keeps the machine from making them late.

use std::num::NonZeroU64;

use vtax_sys::sched;

/// Has this thread's sleeps end on time: the default slack of 50 us (`PR_SET_TIMERSLACK`) would be added to each. Where
/// it can't be changed, lateness shows it.
pub(crate) fn sleep_exactly() {
    let _ = rustix::thread::set_current_timer_slack(Some(NonZeroU64::MIN));
}

/// Has this thread sleep exactly, and run soon after it wakes: a worker that waits for its CPU measures the scheduler
/// instead of the service. Neither is granted everywhere, and lateness shows it.
pub(crate) fn prepare_thread() {
    sleep_exactly();
    let _ = sched::prefer_low_latency();
}
