//! A watch at the API server: a list of the pods of this node, and then each change of them
//! as a line of JSON (Kubernetes' "Efficient detection of changes"). What is asked for is in
//! the server's watch cache, by the name of the node: neither etcd nor other nodes' pods are
//! looked at.

use std::time::Duration;

use tokio::{
    task::spawn_blocking,
    time::{Instant, sleep, timeout_at},
};
use wad_http::{Body, Client, HttpError, Terms, encoded};
use wad_policy::{config::KubernetesSettings, pod::Pods};
use wad_toolbox::{
    access::{Access, Credentials},
    back_off::back_off,
    causes::told,
    chance::chance,
    url::Url,
};

use super::{
    HELD, Origin,
    board::Board,
    objects::{self, GONE, News},
};

/// Most bytes of a list: a hundred kilobytes for each of some hundred pods.
const MOST_LIST_BYTES: usize = 32 << 20;
/// Most bytes of a change. etcd holds no object of more than 1.5 MiB.
const MOST_LINE_BYTES: usize = 4 << 20;

/// Time for a list, and for the head of a watch.
const TIMEOUT: Duration = Duration::from_secs(30);
/// A watch is to end after this time, or up to twice as long, as clients of Kubernetes have
/// it: so no connection that is dead stays, and no token that was replaced.
const WATCH_SECONDS: u64 = 300;
/// A watch that has not ended so long after its time is dead.
const DEAD_AFTER: Duration = Duration::from_secs(15);

/// Says why the API server cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum NoServer {
    #[error(
        "no API server is named (in a pod Kubernetes does it; elsewhere `api_server` of \
         `[kubernetes]`)"
    )]
    Unnamed,
    #[error("this node has no name (set the variable NODE_NAME, or `node` of `[kubernetes]`)")]
    NoNode,
    #[error("the API server's address in KUBERNETES_SERVICE_HOST and _PORT cannot be read")]
    Environment,
}

/// Says why the API server tells of no pods.
#[derive(Debug, thiserror::Error)]
pub enum ApiServerError {
    #[error("no token for the API server (`pods.apiServer` of the chart gives one)")]
    NoToken(#[source] HttpError),
    #[error(
        "the API server does not let it list and watch pods (`pods.apiServer` of the chart has it \
         do so): {reason}"
    )]
    Forbidden { reason: String },
    #[error("the API server does not answer")]
    Http(#[from] HttpError),
    #[error("the API server sent what is no pod")]
    Json(#[from] serde_json::Error),
    #[error("the API server's watch has a line of more than {MOST_LINE_BYTES} bytes")]
    LongLine,
    #[error("the API server answers {status}: {reason}")]
    Refused { status: u16, reason: String },
    #[error("the API server ends each watch soon")]
    Short,
    #[error("the API server's watch is dead")]
    Dead,
}

impl ApiServerError {
    /// Returns whether the server has nothing to go on from any more.
    const fn is_gone(&self) -> bool {
        matches!(self, Self::Refused { status: GONE, .. })
    }

    fn of_request(error: HttpError) -> Self {
        match error {
            HttpError::File { .. } => Self::NoToken(error),
            HttpError::Status { status, reason, body, .. } => {
                let reason = objects::message(&body).unwrap_or(reason);
                match status {
                    401 | 403 => Self::Forbidden { reason },
                    status => Self::Refused { status, reason },
                }
            }
            other => Self::Http(other),
        }
    }
}

/// Says what a turn begins with.
enum Start {
    /// A list of what the server has at hand, which asks nothing of etcd. It may be older than
    /// what others have told.
    Cache,
    /// A list of what there is now: versions of the former are gone.
    Now,
    /// A watch from this version on.
    Version(String),
}

impl Start {
    /// Returns it as a part of a query ("The resourceVersion parameter" of Kubernetes).
    fn query(&self) -> String {
        match self {
            Self::Cache => "&resourceVersion=0".to_owned(),
            Self::Now => String::new(),
            Self::Version(version) => format!("&resourceVersion={}", encoded(version)),
        }
    }
}

/// An API server, and the node whose pods it is asked for.
pub struct ApiServer {
    url: Url,
    access: Access,
    /// Which pods are asked for, as a part of a query.
    query: String,
}

impl ApiServer {
    /// Takes what is not set from the environment, as Kubernetes and the chart make it for a
    /// pod.
    pub fn new(
        settings: &KubernetesSettings,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, NoServer> {
        let url = match &settings.api_server {
            Some(url) => url.clone(),
            None => of_pod(&environment)?,
        };
        let node = settings.node.clone().or_else(|| environment("NODE_NAME"));
        let node = node.filter(|node| !node.is_empty()).ok_or(NoServer::NoNode)?;
        let access = Access {
            credentials: Some(Credentials::Token { file: settings.token_file.clone() }),
            ca_file: Some(settings.ca_file.clone()),
            ..Access::default()
        };
        let selector = format!("spec.nodeName={node}");
        let query = format!("/api/v1/pods?fieldSelector={}", encoded(&selector));
        Ok(Self { url, access, query })
    }

    /// Follows the pods for as long as somebody waits for that.
    pub async fn follow(&self, board: &Board) {
        let (mut failures, mut start) = (0, Start::Cache);
        loop {
            let begun = Instant::now();
            let ended = self.turn(&mut start, board).await;
            let has_held = begun.elapsed() >= HELD;
            if has_held {
                failures = 0;
            }
            let error = match ended {
                Ok(()) if has_held => continue,
                Ok(()) => ApiServerError::Short,
                Err(error) => error,
            };
            let goes_on = if error.is_gone() {
                start = Start::Now;
                true
            } else {
                matches!(start, Start::Version(_))
            };
            // What was only broken off goes on.
            if failures > 0 || !goes_on {
                board.fails(Origin::ApiServer, told(&error));
            }
            sleep(back_off(failures)).await;
            failures = failures.saturating_add(1);
        }
    }

    /// Goes on from there until the watch ends.
    async fn turn(&self, start: &mut Start, board: &Board) -> Result<(), ApiServerError> {
        if !matches!(start, Start::Version(_)) {
            let (pods, version) = self.list(start).await?;
            board.takes(Origin::ApiServer, pods);
            *start = Start::Version(version);
        }
        let seconds = (WATCH_SECONDS as f64 * (1.0 + chance())) as u64;
        let dead_at = Instant::now() + Duration::from_secs(seconds) + DEAD_AFTER;
        let mut lines = Lines::new(self.watch(start, seconds).await?);
        board.answers(Origin::ApiServer);
        loop {
            let line = timeout_at(dead_at, lines.next()).await;
            let Some(line) = line.unwrap_or(Err(ApiServerError::Dead))? else { return Ok(()) };
            match objects::read_line(&line)? {
                News::End { status, reason } => {
                    return Err(ApiServerError::Refused { status, reason });
                }
                News::Change { change, version } => {
                    if let Some(change) = change {
                        board.changes(Origin::ApiServer, change);
                    }
                    if let Some(version) = version {
                        *start = Start::Version(version);
                    }
                }
            }
        }
    }

    /// Asks for all pods.
    async fn list(&self, start: &Start) -> Result<(Pods, String), ApiServerError> {
        let path = format!("{}{}", self.query, start.query());
        let body = self.client()?.get(&path).await.map_err(ApiServerError::of_request)?;
        // A long list is not read in the way of other tasks.
        let read = spawn_blocking(move || objects::read_list(&body)).await;
        // It is not aborted by anybody.
        Ok(read.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?)
    }

    async fn watch(&self, start: &Start, seconds: u64) -> Result<Body, ApiServerError> {
        let path = format!(
            "{}&watch=1&allowWatchBookmarks=true&timeoutSeconds={seconds}{}",
            self.query,
            start.query()
        );
        self.client()?.open(&path).await.map_err(ApiServerError::of_request)
    }

    /// Reads the token anew: it is replaced within an hour.
    fn client(&self) -> Result<Client<'_>, ApiServerError> {
        let terms =
            Terms { access: &self.access, timeout: TIMEOUT, max_response_bytes: MOST_LIST_BYTES };
        Client::new(terms, &self.url).map_err(ApiServerError::of_request)
    }
}

/// Returns the server that Kubernetes tells each pod of.
fn of_pod(environment: impl Fn(&str) -> Option<String>) -> Result<Url, NoServer> {
    let host = environment("KUBERNETES_SERVICE_HOST").filter(|host| !host.is_empty());
    let host = host.ok_or(NoServer::Unnamed)?;
    let port = environment("KUBERNETES_SERVICE_PORT").unwrap_or_else(|| "443".to_owned());
    let authority = if host.contains(':') { format!("[{host}]") } else { host };
    Url::parse(&format!("https://{authority}:{port}")).map_err(|_| NoServer::Environment)
}

/// The lines of a body.
struct Lines {
    body: Body,
    /// These bytes have come behind the line that was taken last.
    buffer: Vec<u8>,
    /// Bytes of it in which there is no end of a line.
    searched_bytes: usize,
}

impl Lines {
    const fn new(body: Body) -> Self {
        Self { body, buffer: Vec::new(), searched_bytes: 0 }
    }

    /// Waits for the next whole line; there is none after the end, which cuts one off.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, ApiServerError> {
        loop {
            let unsearched = &self.buffer[self.searched_bytes..];
            if let Some(at) = unsearched.iter().position(|byte| *byte == b'\n') {
                let rest = self.buffer.split_off(self.searched_bytes + at + 1);
                self.searched_bytes = 0;
                return Ok(Some(std::mem::replace(&mut self.buffer, rest)));
            }
            self.searched_bytes = self.buffer.len();
            if self.searched_bytes > MOST_LINE_BYTES {
                return Err(ApiServerError::LongLine);
            }
            let Some(part) = self.body.part().await? else { return Ok(None) };
            self.buffer.extend_from_slice(&part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(
        settings: &KubernetesSettings,
        variables: &[(&str, &str)],
    ) -> Result<ApiServer, String> {
        let get = |name: &str| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        ApiServer::new(settings, get).map_err(|error| error.to_string())
    }

    const HOST: &str = "KUBERNETES_SERVICE_HOST";
    const PORT: &str = "KUBERNETES_SERVICE_PORT";
    const NODE: (&str, &str) = ("NODE_NAME", "node-1");

    #[test]
    fn a_pod_is_told_where_its_server_is() {
        let usual = KubernetesSettings::default();
        for (host, port, url) in [
            ("10.0.0.1", "6443", "https://10.0.0.1:6443"),
            ("10.0.0.1", "443", "https://10.0.0.1"),
            ("2001:db8::1", "6443", "https://[2001:db8::1]:6443"),
        ] {
            let server = server(&usual, &[(HOST, host), (PORT, port), NODE]).unwrap();
            assert_eq!(server.url.to_string(), url);
            assert_eq!(server.query, "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-1");
        }
        let url = Url::parse("https://a/b").unwrap();
        let named = (Some(url), Some("n".to_owned()));
        let settings = KubernetesSettings { api_server: named.0, node: named.1, ..usual };
        let server = server(&settings, &[(HOST, "10.0.0.1"), NODE]).unwrap();
        assert_eq!(
            (server.url.to_string().as_str(), server.url.path.as_str()),
            ("https://a/b", "/b")
        );
        assert!(server.query.ends_with("%3Dn"));
    }

    #[test]
    fn what_is_not_known_is_told_with_its_cure() {
        let usual = KubernetesSettings::default();
        for (variables, told) in [
            (&[NODE][..], "`api_server` of `[kubernetes]`"),
            (&[(HOST, ""), NODE], "`api_server` of `[kubernetes]`"),
            (&[(HOST, "a b"), NODE], "KUBERNETES_SERVICE_HOST and _PORT cannot be read"),
            (&[(HOST, "10.0.0.1"), (PORT, "x"), NODE], "cannot be read"),
            (&[(HOST, "10.0.0.1")], "set the variable NODE_NAME"),
        ] {
            let error = server(&usual, variables).err().unwrap();
            assert!(error.contains(told), "{error}");
        }
    }
}
