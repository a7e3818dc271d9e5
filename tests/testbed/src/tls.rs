//! Certificates for the loopback are made by openssl, and nginx is a server that shows
//! them.

use std::{
    fs, io,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use tempfile::TempDir;

use crate::process::{Place, Process, ProcessError, run_command};

/// Tells what went wrong with certificates.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot prepare a folder of certificates")]
    Folder(#[from] io::Error),
    #[error(transparent)]
    Process(#[from] ProcessError),
}

/// Tells whether a certificate is still good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    Now,
    Expired,
}

/// An authority that nobody else trusts.
pub struct Authority {
    folder: TempDir,
}

const SETTINGS: &str = "[ca]\ndefault_ca = all\n[all]\ndatabase = index\nnew_certs_dir = .\n\
                        serial = serial\ndefault_md = sha256\npolicy = any\n\
                        x509_extensions = leaf\nunique_subject = no\n\
                        [any]\ncommonName = supplied\n[leaf]\nsubjectAltName = IP:127.0.0.1\n\
                        basicConstraints = critical,CA:FALSE\n";

impl Authority {
    /// # Errors
    /// Without openssl.
    pub fn create() -> Result<Self, TlsError> {
        let authority = Self { folder: tempfile::tempdir()? };
        for (name, content) in [("settings", SETTINGS), ("index", ""), ("serial", "01\n")] {
            fs::write(authority.file(name), content)?;
        }
        authority.openssl(
            "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -subj /CN=test \
             -days 2 -addext basicConstraints=critical,CA:TRUE",
        )?;
        authority.openssl("req -newkey rsa:2048 -nodes -keyout key -out request -subj /CN=leaf")?;
        for (name, dates) in [
            ("now.pem", "-days 1"),
            ("expired.pem", "-startdate 20200101000000Z -enddate 20200201000000Z"),
        ] {
            authority.openssl(&format!(
                "ca -batch -notext -config settings -keyfile ca.key -cert ca.pem -in request \
                 -out {name} {dates}"
            ))?;
        }
        Ok(authority)
    }

    /// Returns the certificate that is to be trusted.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.file("ca.pem")
    }

    /// Returns a certificate of the authority, and its key.
    #[must_use]
    pub fn identity(&self) -> [PathBuf; 2] {
        [self.file("now.pem"), self.file("key")]
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn openssl(&self, arguments: &str) -> Result<(), TlsError> {
        let mut command = Command::new("openssl");
        command.args(arguments.split_whitespace()).current_dir(self.folder.path());
        run_command(&mut command)?;
        Ok(())
    }
}

/// A guard says whom a server answers: those with a certificate of the authority, with a
/// name and a password, and with a header.
#[derive(Clone, Copy, Debug)]
pub struct Guard {
    pub username: &'static str,
    pub password: &'static str,
    /// The header, as nginx names its variable, and its value.
    pub header: (&'static str, &'static str),
}

/// nginx before a plain server; it ends when dropped.
pub struct TlsServer {
    _process: Process,
    _folder: TempDir,
    port: u16,
}

impl TlsServer {
    /// Passes on what it is asked over TLS on the loopback.
    ///
    /// # Errors
    /// When nginx cannot be run.
    pub fn start(
        authority: &Authority,
        validity: Validity,
        plain: SocketAddr,
    ) -> Result<Self, TlsError> {
        Self::start_guarded(authority, validity, plain, None)
    }

    /// Does the same for those who say who they are.
    ///
    /// # Errors
    /// When nginx cannot be run.
    pub fn start_guarded(
        authority: &Authority,
        validity: Validity,
        plain: SocketAddr,
        guard: Option<Guard>,
    ) -> Result<Self, TlsError> {
        let folder = tempfile::tempdir()?;
        let root = folder.path().display();
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let certificate = authority.file(match validity {
            Validity::Now => "now.pem",
            Validity::Expired => "expired.pem",
        });
        let (certificate, key) = (certificate.display(), authority.file("key"));
        let key = key.display();
        let mut guarded = String::new();
        if let Some(Guard { username, password, header: (header, value) }) = guard {
            let users = folder.path().join("users");
            fs::write(&users, format!("{username}:{{PLAIN}}{password}\n"))?;
            guarded = format!(
                "ssl_client_certificate {}; ssl_verify_client on;\n\
                 auth_basic test; auth_basic_user_file {};\n\
                 if ($http_{header} != \"{value}\") {{ return 403; }}\n",
                authority.certificate().display(),
                users.display()
            );
        }
        // One process, as root: no other could read the folder.
        let settings = format!(
            "daemon off; master_process off; pid {root}/pid; error_log {root}/log;\n\
             events {{}}\n\
             http {{ access_log off; client_body_temp_path {root}/body;\n\
             proxy_temp_path {root}/proxy; fastcgi_temp_path {root}/fastcgi;\n\
             uwsgi_temp_path {root}/uwsgi; scgi_temp_path {root}/scgi;\n\
             server {{ listen 127.0.0.1:{port} ssl; ssl_certificate {certificate};\n\
             ssl_certificate_key {key}; {guarded} location / {{ proxy_pass http://{plain}; }} }} }}\n"
        );
        let file = folder.path().join("nginx.conf");
        fs::write(&file, settings)?;
        let process = Place::default().spawn(nginx(&folder.path().join("log"), &file))?;
        Ok(Self { _process: process, _folder: folder, port })
    }

    #[must_use]
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }
}

fn nginx(log: &Path, settings: &Path) -> Command {
    let mut command = Command::new("nginx");
    command.arg("-e").arg(log).arg("-c").arg(settings);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}
