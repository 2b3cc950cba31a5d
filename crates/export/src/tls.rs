//! Encryption, by rustls: whom to trust, and the connection.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::fault::{Fault, Stage};
use crate::socket::Socket;

/// Where systems keep the certificates that they trust: Debian and its kin, Red Hat and its kin,
/// SUSE, Alpine.
const SYSTEM_FILES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
/// Bytes of such a file; they have some 200 KiB.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// An encrypted connection.
pub type Encrypted = StreamOwned<ClientConnection, Socket>;

/// Whom to trust; files are read when the first connection needs them, and again after
/// one that could not be trusted.
#[derive(Debug)]
pub struct Trust {
    file: Option<PathBuf>,
    config: Option<Arc<ClientConfig>>,
}

impl Trust {
    /// The certificates of a file, or the system's.
    #[must_use]
    pub const fn new(file: Option<PathBuf>) -> Self {
        Self { file, config: None }
    }

    /// Encrypts a connection to a host.
    ///
    /// # Errors
    /// Why it can't, or that the host is not whom it says.
    pub fn encrypt(&mut self, host: &str, socket: Socket) -> Result<Box<Encrypted>, Fault> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| {
            Fault::Tls("the host's name is none that a certificate can have".into())
        })?;
        let connection = ClientConnection::new(self.config()?, name);
        let connection = connection.map_err(|error| Fault::Tls(error.to_string()))?;
        let agreed = agree(connection, socket);
        if matches!(agreed, Err(Fault::Tls(_))) {
            // Another certificate over there may mean that there are others to trust here, too.
            self.config = None;
        }
        agreed
    }

    fn config(&mut self) -> Result<Arc<ClientConfig>, Fault> {
        if let Some(config) = &self.config {
            return Ok(Arc::clone(config));
        }
        let roots = self.roots()?;
        // Named, and not the process's: the host may have set one of its own.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Fault::Tls(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Arc::clone(self.config.insert(Arc::new(config))))
    }

    fn roots(&self) -> Result<RootCertStore, Fault> {
        let files: Vec<&Path> = match &self.file {
            Some(file) => vec![file],
            None => SYSTEM_FILES.iter().map(Path::new).collect(),
        };
        for file in files {
            let roots = read_roots(file);
            if !roots.is_empty() {
                return Ok(roots);
            }
        }
        Err(Fault::NoCertificates)
    }
}

fn agree(connection: ClientConnection, socket: Socket) -> Result<Box<Encrypted>, Fault> {
    let mut stream = Box::new(StreamOwned::new(connection, socket));
    while stream.conn.is_handshaking() {
        let done = stream.conn.complete_io(&mut stream.sock);
        done.map_err(|error| Fault::of(Stage::Tls, &error))?;
    }
    Ok(stream)
}

/// The certificates of a file; those that make no sense are left out, as they would trust nobody.
fn read_roots(file: &Path) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let mut bytes = Vec::new();
    // Where a pipe was named, nobody must wait for what never comes.
    let opened = sys::files::read_named(file);
    let read = opened.and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut bytes));
    if read.is_ok() {
        roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&bytes).flatten());
    }
    roots
}

#[cfg(all(test, unix))]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// The exporter's thread would hang in the opening of a pipe that nobody writes to, and read a
    /// device for ever.
    #[test]
    fn a_pipe_or_a_device_in_the_files_place_is_no_file() {
        let pipe = std::env::temp_dir().join(format!("corprof-ca-{}", std::process::id()));
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.is_ok_and(|status| status.success()));
        for path in [pipe.clone(), "/dev/zero".into()] {
            let (say, hear) = mpsc::channel();
            let trust = Trust::new(Some(path.clone()));
            let read = move || {
                let _heard = say.send(trust.roots().map(|roots| roots.len()));
            };
            sys::thread::spawn("test-roots", read).expect("a thread");
            // Far longer than it takes: whoever waits for a writer waits for ever.
            let found = hear.recv_timeout(Duration::from_secs(60)).expect("it hangs");
            assert_eq!(found, Err(Fault::NoCertificates), "{path:?}");
        }
        std::fs::remove_file(&pipe).expect("removed");
    }
}
