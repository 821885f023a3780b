//! What panics of other threads come to: mutexes whose data stays usable after a thread panicked while it held them,
//! and threads whose panic goes on where they are waited for.
//!
//! The standard library marks such a mutex as poisoned. Use these functions where every update leaves the data
//! whole, so that one thread's panic doesn't take the others along. The panic itself is still reported by the
//! thread that had it.

use std::panic::resume_unwind;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

/// What a thread found; its panic goes on here.
pub fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// Locks the mutex, poisoned or not.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the data out of the mutex, poisoned or not.
pub fn into_inner<T>(mutex: Mutex<T>) -> T {
    mutex.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until the condition is notified. As with the standard library's, it may also wake up for no reason.
pub fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// Waits until the condition is notified or the time is over. It may also wake up for no reason.
pub fn wait_timeout<'a, T>(
    condition: &Condvar,
    guard: MutexGuard<'a, T>,
    timeout: Duration,
) -> MutexGuard<'a, T> {
    condition.wait_timeout(guard, timeout).unwrap_or_else(PoisonError::into_inner).0
}

/// Waits while `waiting` is true of the data, at most this long.
pub fn wait_timeout_while<'a, T>(
    condition: &Condvar,
    guard: MutexGuard<'a, T>,
    timeout: Duration,
    waiting: impl FnMut(&mut T) -> bool,
) -> MutexGuard<'a, T> {
    condition.wait_timeout_while(guard, timeout, waiting).unwrap_or_else(PoisonError::into_inner).0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn data_outlives_a_panic() {
        let mutex = Mutex::new(1);
        let panicked = std::thread::scope(|scope| {
            let holder = scope.spawn(|| {
                let _held = lock(&mutex);
                panic!("for the test");
            });
            holder.join().is_err()
        });
        assert!(panicked && mutex.is_poisoned());
        *lock(&mutex) += 1;
        let condition = Condvar::new();
        let guard = wait_timeout(&condition, lock(&mutex), Duration::from_millis(1));
        drop(wait_timeout_while(&condition, guard, Duration::from_secs(60), |n| *n != 2));
        assert_eq!(into_inner(mutex), 2);
    }

    #[test]
    fn a_panic_goes_on_where_its_thread_is_waited_for() {
        let joined = |work: fn() -> u32| {
            let waited = || std::thread::scope(|scope| super::joined(scope.spawn(work)));
            std::panic::catch_unwind(waited)
        };
        assert_eq!(joined(|| 1).ok(), Some(1));
        let panic = joined(|| panic!("for the test")).unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"for the test"));
    }

    #[test]
    fn a_wait_ends_with_its_time_or_its_condition() {
        let (mutex, condition) = (Mutex::new(false), Condvar::new());
        let started = Instant::now();
        let guard = wait_timeout_while(&condition, lock(&mutex), Duration::from_millis(5), |done| !*done);
        assert!(!*guard && started.elapsed() >= Duration::from_millis(5));
        drop(guard);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                *lock(&mutex) = true;
                condition.notify_all();
            });
            let mut guard = lock(&mutex);
            while !*guard {
                guard = wait(&condition, guard);
            }
        });
    }
}
