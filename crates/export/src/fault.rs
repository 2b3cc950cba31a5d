//! Why a request got no answer.

use std::fmt;
use std::io;
use std::time::Duration;

/// What was being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Looking for the host's number.
    Resolving,
    /// Connecting.
    Connecting,
    /// Speaking to the proxy.
    Proxy,
    /// Agreeing on keys.
    Tls,
    /// Sending.
    Sending,
    /// Waiting for the answer.
    Answer,
}

impl Stage {
    const fn name(self) -> &'static str {
        match self {
            Self::Resolving => "looking for the host",
            Self::Connecting => "connecting",
            Self::Proxy => "speaking to the proxy",
            Self::Tls => "agreeing on TLS",
            Self::Sending => "sending",
            Self::Answer => "waiting for the answer",
        }
    }

    /// What there is not if its time is over.
    const fn missing(self) -> &'static str {
        match self {
            Self::Resolving => "no address for the host's name",
            Self::Connecting => "no connection",
            Self::Proxy => "no answer of the proxy",
            Self::Tls => "no agreement on TLS",
            Self::Sending => "not all could be sent",
            Self::Answer => "no answer",
        }
    }
}

/// Why there is no answer. None of it is for good: the next attempt may succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The system said why.
    Io {
        /// While doing what.
        stage: Stage,
        /// What kind of error.
        kind: io::ErrorKind,
    },
    /// Time was over.
    Time(Stage),
    /// So much time was over.
    Late {
        /// While doing what.
        stage: Stage,
        /// What a request may take.
        limit: Duration,
    },
    /// The other side ended the connection.
    Closed(Stage),
    /// What came is no HTTP.
    NotHttp,
    /// The head of the answer doesn't end.
    HeadTooLarge,
    /// The proxy refuses.
    Proxy(u16),
    /// There are no certificates to trust.
    NoCertificates,
    /// TLS says why.
    Tls(String),
}

impl Fault {
    /// What an error of the system means.
    #[must_use]
    pub fn of(stage: Stage, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Self::Time(stage),
            io::ErrorKind::UnexpectedEof => Self::Closed(stage),
            io::ErrorKind::InvalidData => match error.get_ref() {
                Some(tls) if tls.is::<rustls::Error>() => Self::Tls(tls.to_string()),
                _ => Self::NotHttp,
            },
            kind => Self::Io { stage, kind },
        }
    }

    /// The same of a request that had so much time, and took it.
    #[must_use]
    pub fn within(self, limit: Duration) -> Self {
        match self {
            Self::Time(stage) => Self::Late { stage, limit },
            other => other,
        }
    }
}

impl Fault {
    /// Whether somebody was there to send to.
    #[must_use]
    pub const fn is_after_connecting(&self) -> bool {
        match self {
            Self::Io { stage, .. }
            | Self::Time(stage)
            | Self::Late { stage, .. }
            | Self::Closed(stage) => matches!(stage, Stage::Sending | Stage::Answer),
            Self::NotHttp | Self::HeadTooLarge => true,
            Self::Proxy(_) | Self::NoCertificates | Self::Tls(_) => false,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The resolver's errors are of no kind that has a name.
            Self::Io { stage: Stage::Resolving, .. } => {
                write!(f, "no such host: no DNS and no hosts file that is asked here knows it")
            }
            Self::Io { stage, kind } => write!(f, "{kind} while {}", stage.name()),
            Self::Time(stage) => write!(f, "{} in time", stage.missing()),
            Self::Late { stage, limit } => {
                write!(f, "{} within {} s", stage.missing(), limit.as_secs_f64())
            }
            Self::Closed(stage) => write!(f, "the connection was closed while {}", stage.name()),
            Self::NotHttp => write!(f, "the answer is no HTTP: another service is there"),
            Self::HeadTooLarge => write!(f, "the answer's head is too large"),
            Self::Proxy(status) => write!(f, "the proxy refuses, with status {status}"),
            Self::NoCertificates => write!(
                f,
                "there are no certificates to trust: set CORPROF_CA_FILE to a file of them"
            ),
            Self::Tls(why) => write!(f, "TLS: {why}"),
        }
    }
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happened_is_said_in_words_of_the_user() {
        let io = |stage, kind| Fault::Io { stage, kind };
        let limit = Duration::from_millis(2_500);
        for (fault, words) in [
            (io(Stage::Resolving, io::ErrorKind::Other), "no such host: "),
            (io(Stage::Connecting, io::ErrorKind::ConnectionRefused), "connection refused while"),
            (Fault::Time(Stage::Answer), "no answer in time"),
            (Fault::Time(Stage::Answer).within(limit), "no answer within 2.5 s"),
            (Fault::Time(Stage::Connecting).within(limit), "no connection within 2.5 s"),
            (Fault::NotHttp.within(limit), "the answer is no HTTP"),
        ] {
            assert!(fault.to_string().starts_with(words), "{fault}");
        }
    }
}
