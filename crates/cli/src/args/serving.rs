//! The flags of `corprof serve`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

pub const SERVE_LONG: &str = "\
Take the profiles that agents push, keep them on disk, and show them in the browser: by service,
version, instance, endpoint, label and time.

It takes our own files (POST /v1/push), what Pyroscope's senders push, and OTLP over HTTP. A profile
is on disk before its sender hears that it was taken. By default only this machine reaches it; at
any other address it takes a token (CORPROF_SERVE_TOKEN or --token-file), and a proxy for TLS in
front. It is for one machine and some dozens of agents; beyond that send to Pyroscope, Datadog or an
OpenTelemetry backend.";

pub const SERVE_EXAMPLES: &str = "\
Examples:
  corprof serve --data /var/lib/corprof
  corprof serve --data profiles --listen 0.0.0.0:4041 --token-file token --keep 30d --keep-size 50GB
  corprof run --server-url http://localhost:4041 -- dotnet MyApp.dll
  curl --data-binary @a.pb.gz 'http://localhost:4041/v1/push?service=shop&version=1.2'";

/// Where it listens if nobody says it.
const PORT: u16 = 4041;

/// `corprof serve`.
#[derive(Args, Debug)]
pub struct ServeArgs {
    /// The folder for profiles, made if it is not there; of one server at a time
    #[arg(long, value_name = "DIR", default_value = "corprof-data")]
    pub data: PathBuf,

    /// Where it listens, by numbers: 127.0.0.1:4041, [::1]:4041, 0.0.0.0:4041; or localhost:4041
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:4041",
          value_parser = address)]
    pub listen: SocketAddr,

    /// A file with the token that senders and readers have to have; otherwise CORPROF_SERVE_TOKEN
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,

    /// How long profiles are kept, as in 30d or 12h
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = age)]
    pub keep: Duration,

    /// How much is kept, as in 50GB or 800MB: beyond it the oldest are deleted
    #[arg(long = "keep-size", value_name = "SIZE", default_value = "10GB", value_parser = size)]
    pub keep_bytes: u64,

    /// How much of the latest time is held in memory, where questions are answered at once
    #[arg(long, value_name = "TIME", default_value = "2h", value_parser = age)]
    pub window: Duration,
}

/// `127.0.0.1:4041` as an address. Of names only that of this machine itself is known: what others
/// lead to can change.
fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
    match (host, port.parse::<u16>()) {
        ("localhost", Ok(port)) => Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
        (_, port) => {
            let port = port.unwrap_or(PORT);
            Err(format!(
                "not an address in numbers with a port: write --listen 127.0.0.1:{port} for this \
                 machine alone, or --listen 0.0.0.0:{port} and a token for all who can reach it"
            ))
        }
    }
}

/// `7d` as a time.
fn age(text: &str) -> Result<Duration, String> {
    let units = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];
    let (number, seconds) = split(text, &units)
        .filter(|(number, _)| *number > 0)
        .ok_or("not a time such as 30d, 12h or 90m")?;
    number.checked_mul(seconds).map(Duration::from_secs).ok_or("too long".to_owned())
}

/// `10GB` as bytes.
fn size(text: &str) -> Result<u64, String> {
    let units = [("TB", 1 << 40), ("GB", 1 << 30), ("MB", 1 << 20)];
    let (number, bytes) = split(text, &units)
        .filter(|(number, _)| *number > 0)
        .ok_or("not a size such as 50GB or 800MB")?;
    number.checked_mul(bytes).ok_or("too large".to_owned())
}

/// A number and what its unit stands for.
fn split(text: &str, units: &[(&str, u64)]) -> Option<(u64, u64)> {
    let text = text.trim();
    units
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?.trim().parse().ok()?, *factor)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_of_numbers_or_this_machine() {
        for (text, is) in [
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("[::1]:80", "[::1]:80"),
            ("localhost:8080", "127.0.0.1:8080"),
            ("localhost:0", "127.0.0.1:0"),
        ] {
            assert_eq!(address(text).map(|address| address.to_string()), Ok(is.to_owned()));
        }
        for (text, line) in [
            ("example.com:8080", "--listen 127.0.0.1:8080 "),
            ("8080", "--listen 0.0.0.0:8080 "),
            (":8080", "--listen 127.0.0.1:8080 "),
            ("*:8080", "--listen 127.0.0.1:8080 "),
            ("localhost", "--listen 127.0.0.1:4041 "),
            ("0.0.0.0", "--listen 0.0.0.0:4041 "),
            ("localhost:99999", "--listen 127.0.0.1:4041 "),
            ("", "--listen 127.0.0.1:4041 "),
        ] {
            let why = address(text).unwrap_err();
            assert!(why.contains(line), "{text}: {why}");
        }
    }

    #[test]
    fn times_and_sizes_have_units() {
        assert_eq!(age("7d"), Ok(Duration::from_secs(7 * 86_400)));
        assert_eq!(age("90 m"), Ok(Duration::from_secs(5_400)));
        assert!(
            ["", "7", "0d", "-1h", "1y", "99999999999999999999d"].iter().all(|t| age(t).is_err())
        );
        assert_eq!(size("50GB"), Ok(50 << 30));
        assert!(["10", "0GB", "GB", "99999999999TB"].iter().all(|text| size(text).is_err()));
    }
}
