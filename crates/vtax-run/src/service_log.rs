//! The errors in a service's log while it was measured: a figure is read differently beside
//! "could not allocate shared memory".

use vtax_plan::model::{Service, ServiceKind};

/// How the services that vtax starts mark a line as an error: Kamailio, MariaDB, nginx, and Apache, which says before it which of its
/// modules speaks (`[mpm_event:error]`).
const MARKS: [&str; 12] = [
    "ERROR:",
    "CRITICAL:",
    "ALERT:",
    "[ERROR]",
    "[error]",
    "[crit]",
    "[alert]",
    "[emerg]",
    ":error]",
    ":crit]",
    ":alert]",
    ":emerg]",
];
/// What Kamailio says when the memory its processes share is used up.
const NO_MEMORY: [&str; 3] = ["could not allocate shared memory", "no more shared memory", "no more shm mem"];
/// Bytes of a line that are quoted.
const QUOTED_BYTES: usize = 200;

/// Error lines of one trial's service.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ServiceErrors {
    count: u64,
    first: Option<String>,
    no_memory: u64,
}

impl ServiceErrors {
    /// Finds those among lines of its output.
    pub(crate) fn among<'a>(lines: impl Iterator<Item = &'a str>) -> Self {
        let mut found = Self::default();
        for line in lines.filter(|line| MARKS.iter().any(|mark| line.contains(mark))) {
            found.count += 1;
            found.no_memory += u64::from(NO_MEMORY.iter().any(|text| line.contains(text)));
            found.first.get_or_insert_with(|| quoted(line));
        }
        found
    }

    /// All in a line, where there are any.
    pub(crate) fn fact(&self) -> Option<String> {
        let first = self.first.as_ref()?;
        Some(match self.count {
            1 => format!("1 error line: {first}"),
            count => format!("{count} error lines, the first: {first}"),
        })
    }

    /// What to do about them, where that is known.
    pub(crate) fn advice(&self, service: &Service) -> Option<String> {
        let ServiceKind::Kamailio(options) = &service.kind else { return None };
        (self.no_memory > 0).then(|| {
            format!(
                "{} ran out of shared memory ({}) and refused requests for it: raise its `shared_memory`",
                service.name, options.shared_memory
            )
        })
    }
}

fn quoted(line: &str) -> String {
    let line = line.trim();
    let end = (0..=QUOTED_BYTES.min(line.len())).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
    line[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use vtax_plan::model::{KamailioOptions, LocationMode};
    use vtax_units::{Bytes, Nanos};

    use super::*;

    #[test]
    fn errors_are_counted_and_the_first_is_quoted() {
        let lines = [
            " 0(17) INFO: listening",
            " 3(21) ERROR: tm [t_reply.c:1]: failed to do something",
            "4(22) ERROR: core [mem/f_malloc.c:2]: could not allocate shared memory from shm pool",
            "2026-11-20 [ERROR] mariadbd: no error: an ERROR",
        ];
        let found = ServiceErrors::among(lines.into_iter());
        assert_eq!((found.count, found.no_memory), (3, 1));
        let fact = found.fact().expect("there are some");
        assert_eq!(fact, "3 error lines, the first: 3(21) ERROR: tm [t_reply.c:1]: failed to do something");
        let one = ServiceErrors::among(lines.into_iter().skip(1).take(1)).fact().expect("there is one");
        assert_eq!(one, "1 error line: 3(21) ERROR: tm [t_reply.c:1]: failed to do something");
        let kind = ServiceKind::Kamailio(KamailioOptions {
            port: 5060,
            children: None,
            shared_memory: Bytes::from_mib(256),
            t1: Nanos::from_millis(500),
            location: LocationMode::WriteBack,
            media_relay: None,
            tls: false,
        });
        let (ready_timeout, stop_timeout) = (Nanos::from_secs(1), Nanos::from_secs(1));
        let service = Service { name: "kamailio".into(), kind, ready_timeout, stop_timeout };
        let advice = found.advice(&service).expect("it is known");
        assert!(advice.contains("shared memory (256MiB)"), "{advice}");
        assert_eq!(ServiceErrors::among(lines[..2].iter().copied()).advice(&service), None);
    }

    #[test]
    fn lines_of_every_server_are_known_and_others_are_not_errors() {
        for line in [
            "2026/11/29 22:40:11 [alert] 4711#4711: 16384 worker_connections are not enough",
            "2026/11/29 22:40:11 [crit] 12#12: accept4() failed (24: Too many open files)",
            "2026/11/29 22:40:11 [emerg] 12#12: bind() to 10.0.0.2:80 failed (98: Address already in use)",
            "[Sun Nov 29 22:40:11.123456 2026] [mpm_event:error] [pid 42:tid 42] AH00484: server reached MaxRequestWorkers \
             setting, consider raising the MaxRequestWorkers setting",
            "[Sun Nov 29 22:40:11.123456 2026] [core:crit] [pid 42] (22)Invalid argument: AH00069: make_sock: for address [::]:80, \
             apr_socket_opt_set: (IPV6_V6ONLY)",
            "[Sun Nov 29 22:40:11.123456 2026] [core:alert] [pid 42:tid 42] AH00050: Child 43 returned a Fatal \
             error... Apache is exiting!",
            "[Sun Nov 29 22:40:11.123456 2026] [ssl:emerg] [pid 42:tid 42] AH02572: Failed to configure at least \
             one certificate and key for localhost:443",
            "2026-11-29 22:40:11 0 [ERROR] Aborting",
        ] {
            assert_eq!(ServiceErrors::among([line].into_iter()).count, 1, "{line}");
        }
        for line in [
            "2026/11/29 22:40:11 [warn] 12#12: *5 an upstream response is buffered to a temporary file",
            "2026/11/29 22:40:11 [notice] 12#12: signal process started",
            "[Sun Nov 29 22:40:11.123456 2026] [mpm_event:notice] [pid 42:tid 42] AH00489: Apache/2.4.62 (Debian) configured \
             -- resuming normal operations",
            "[Sun Nov 29 22:40:11.123456 2026] [ssl:warn] [pid 42:tid 42] AH01906: server certificate is a CA certificate",
            "2026-11-29 22:40:11 0 [Note] InnoDB: Buffer pool(s) load completed",
            "2026-11-29 22:40:11 0 [Warning] 'user' entry ignored",
            "[1764456011.123456] WARNING: [core] Media timeout of 60 s",
            "[1764456011.123456] NOTICE: [callid@host]: [control] Replying to 'ping'",
            " 3(21) WARNING: tm [t_lookup.c:1612]: t_unref(): WARNING: script writer didn't release transaction",
            "Sun Nov 29 22:40:11 2026 [pid 7] [vtax] FAIL LOGIN: Client \"10.0.0.1\"",
            "7:M 29 Nov 2026 22:40:11.123 * Ready to accept connections",
        ] {
            assert_eq!(ServiceErrors::among([line].into_iter()).count, 0, "{line}");
        }
    }

    #[test]
    fn a_log_without_errors_has_no_fact_and_long_lines_are_cut() {
        assert_eq!(ServiceErrors::among(["all is well"].into_iter()).fact(), None);
        let long = format!("ERROR: {}", "ä".repeat(4_000));
        let fact = ServiceErrors::among([long.as_str()].into_iter()).fact().expect("one");
        assert!(fact.len() < 2 * QUOTED_BYTES, "{}", fact.len());
    }
}
