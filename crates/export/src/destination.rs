//! Where a target's profiles go: the address, and what only the request may have.

use std::fmt;
use std::sync::Arc;

use config::{Config, ExportConfig, Secret, Target};
use profile::Profile;

use crate::address::{Address, BadAddress};
use crate::base64;
use crate::identity::Identity;
use crate::parcel::{Parcel, checksum};
use crate::request::Request;
use crate::target::{datadog, otlp, pyroscope, server};

/// Headers of ours that are no secrets.
const PLAIN: [&str; 3] = ["DD-EVP-ORIGIN", "DD-EVP-ORIGIN-VERSION", "X-Scope-OrgID"];

/// A target with its address.
#[derive(Clone, Debug)]
pub struct Destination {
    /// What takes the profiles.
    pub target: Target,
    /// Where it is.
    pub address: Address,
    /// Headers for every request: keys, and whom it is for.
    pub headers: Vec<(String, Secret)>,
    /// Whose it is there, if that is not said by the address: a tenant, a user.
    pub account: String,
    /// What must not be shown besides what is in the address and the headers.
    pub secrets: Vec<Secret>,
}

/// Why a target can't be sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadDestination {
    /// An option's address is none.
    Address {
        /// The variable, by the name that was set.
        option: &'static str,
        /// What is wrong.
        why: BadAddress,
    },
    /// Datadog's intake needs a key.
    NoKey,
}

impl BadDestination {
    /// The same, with the name by which the option was set.
    fn by_name(self, config: &ExportConfig) -> Self {
        match self {
            Self::Address { option, why } => Self::Address { option: config.name_of(option), why },
            Self::NoKey => Self::NoKey,
        }
    }
}

impl fmt::Display for BadDestination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address { option, why } => {
                write!(f, "{option} is no address: {why}. Write it as http://host:port")
            }
            Self::NoKey => write!(
                f,
                "sending to Datadog without an agent needs a key: set CORPROF_DATADOG_API_KEY or \
                 DD_API_KEY"
            ),
        }
    }
}

impl std::error::Error for BadDestination {}

impl Destination {
    /// The destination of a target; `None` for files, which are not sent.
    ///
    /// # Errors
    /// Why there is none.
    pub fn new(target: Target, config: &Config) -> Option<Result<Self, BadDestination>> {
        let found = match target {
            Target::File => return None,
            Target::Datadog => datadog::destination(&config.export.datadog),
            Target::Pyroscope => pyroscope::destination(&config.export.pyroscope),
            Target::Otlp => otlp::destination(&config.export.otlp),
            Target::Server => server::destination(&config.export.server),
        };
        // A proxy that answers itself may say who asked.
        let proxies = [&config.export.http_proxy, &config.export.https_proxy].map(Secret::clone);
        let found = found.map_err(|why| why.by_name(&config.export));
        Some(found.map(|mut destination| {
            destination.secrets.extend(proxies);
            destination
        }))
    }

    /// A short name that tells this destination from others: for files that wait for it.
    #[must_use]
    pub fn lane(&self) -> String {
        let place = format!("{} {}", self.address, self.account);
        format!("{}-{:016x}", self.target.name(), checksum(place.as_bytes()))
    }

    /// The request that sends a parcel.
    #[must_use]
    pub fn request(&self, parcel: &Parcel) -> Request {
        let plain = |name: &str, value: &str| (name.to_owned(), Secret::new(value.to_owned()));
        let mut headers = vec![plain("Content-Type", &parcel.content_type)];
        if parcel.is_gzipped {
            headers.push(plain("Content-Encoding", "gzip"));
        }
        headers.extend(self.headers.iter().cloned());
        Request { address: self.address.clone(), headers, body: Arc::clone(&parcel.body) }
    }

    /// What must not be shown should the other side send it back, in whatever form it got it; the
    /// longest first.
    #[must_use]
    pub fn hidden(&self) -> Vec<String> {
        let headers = self.headers.iter().filter(|(name, _)| !PLAIN.contains(&name.as_str()));
        let mut hidden: Vec<String> = headers.flat_map(|(_, value)| words(value)).collect();
        hidden.extend(user_words(&self.address.user));
        hidden.extend(self.address.path.split_once('?').map(|(_, query)| query.to_owned()));
        for secret in &self.secrets {
            hidden.push(secret.reveal().to_owned());
            let address = secret.reveal().rsplit_once('@').map_or("", |(before, _)| before);
            let user = address.split_once("://").map_or(address, |(_, user)| user);
            hidden.extend(user_words(&Secret::new(user.to_owned())));
        }
        hidden.retain(|text| !text.is_empty());
        hidden.sort_by_key(|text| std::cmp::Reverse(text.len()));
        hidden
    }
}

/// A header's value, and what of it follows the last blank: the key of `Bearer key`.
fn words(value: &Secret) -> [String; 2] {
    let value = value.reveal();
    [value, value.rsplit(' ').next().unwrap_or_default()].map(str::to_owned)
}

/// `user:password`, as a header has it, and the password.
fn user_words(user: &Secret) -> [String; 3] {
    let user = user.reveal();
    let password = user.split_once(':').map_or("", |(_, password)| password);
    let encoded = if user.is_empty() { String::new() } else { base64::encode(user.as_bytes()) };
    [user.to_owned(), password.to_owned(), encoded]
}

/// A profile made ready for a target; `None` for files.
///
/// # Errors
/// If it can't be encoded.
pub fn parcel(
    target: Target,
    profile: &Profile,
    identity: &Identity,
) -> Option<std::io::Result<Parcel>> {
    match target {
        Target::File => None,
        Target::Datadog => Some(datadog::parcel(profile, identity)),
        Target::Pyroscope => Some(pyroscope::parcel(profile, identity)),
        Target::Otlp => Some(otlp::parcel(profile, identity)),
        Target::Server => Some(server::parcel(profile, identity)),
    }
}

/// Reads an option's address.
pub(crate) fn address(option: &'static str, text: &str) -> Result<Address, BadDestination> {
    Address::parse(text).map_err(|why| BadDestination::Address { option, why })
}

/// The number of a profile in its process.
pub(crate) fn seq(profile: &Profile) -> u64 {
    profile.report.as_ref().map_or(0, |report| report.seq)
}
