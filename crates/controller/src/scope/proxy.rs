//! From a request to the API server's answer, or to a refusal.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Either, Full, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::body::{self, Stored};
use super::decide::{Decision, Known, Live, Rules, Write, decide};
use super::headers::{check, end_to_end, impersonate};
use super::owner::{Claim, Extension, Identity, OLM, Owner, Set};
use super::path::{self, Place, Target};
use super::refusal::Refusal;
use super::stream::Stream;
use super::upstream::{Answer, Upstream};
use crate::shutdown::Stop;

/// The largest body that an API server accepts, and how long it may take to arrive.
const LARGEST_BODY: usize = 3 * 1024 * 1024;
const SLOWEST_BODY: Duration = Duration::from_secs(30);
/// The number of concurrent writes, each of which may hold a body, and how long one may wait for its turn.
pub(super) const WRITES: usize = 64;
const PATIENCE: Duration = Duration::from_secs(10);
/// How long an answer may take. A watch takes as long as it specifies, and at most as long as an API server allows.
const LONGEST_ANSWER: Duration = Duration::from_mins(5);
const LONGEST_WATCH: Duration = Duration::from_hours(1);
/// Bodies larger than this are parsed after other tasks were moved off the thread, so that those are not delayed.
const SMALL_BODY: usize = 32 * 1024;

const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const JSON: &str = "application/json";

type Reply = Response<Either<Full<Bytes>, Stream>>;

/// The outcome of a request: `read`, `own`, `impersonated`, `gone`, `refused`, `failed`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Outcome {
    pub outcome: &'static str,
}

/// Everything that is needed to answer requests.
pub(super) struct Proxy {
    pub upstream: Upstream,
    pub rules: Rules,
    /// Whether extensions act as the account that they name, if they name one.
    pub service_accounts: bool,
    pub requests: Family<Outcome, Counter>,
    pub stop: Stop,
    pub writes: Semaphore,
}

/// A request that does not reach the API server, or was already answered.
enum Ended {
    Refused(Refusal),
    /// The API server's answer to a look-up is also the answer to the request.
    Answered(Box<Answer>),
}

impl<E: Into<Refusal>> From<E> for Ended {
    fn from(error: E) -> Self {
        Ended::Refused(error.into())
    }
}

impl Proxy {
    /// Answers any request.
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Reply {
        let (head, body) = request.into_parts();
        let place = path::read(head.uri.path());
        let target = if let Ok(Place::Object(target)) = &place { Some(target) } else { None };
        let mut name = target.and_then(|target| target.name.clone()).unwrap_or_default();
        let answered = match &place {
            Err(error) => Err((*error).into()),
            Ok(place) => self.handle(place, &head, body, &mut name).await,
        };
        match answered {
            Ok(reply) => reply,
            Err(Ended::Answered(answer)) => reply(answer.status, end_to_end(&answer.headers), answer.body),
            Err(Ended::Refused(refusal)) => self.refuse(&refusal, &head, target, &name),
        }
    }

    async fn handle(&self, place: &Place, head: &Parts, body: Incoming, name: &mut String) -> Result<Reply, Ended> {
        let credentials = check(&head.headers)?;
        match place {
            Place::Connection => Err(Refusal::Connection.into()),
            _ if matches!(head.method, Method::GET | Method::HEAD) => {
                if !body.is_end_stream() {
                    return Err(Refusal::Malformed("a read has no body").into());
                }
                self.count("read");
                self.forward(head, Bytes::new(), None).await
            }
            Place::Other => Err(Refusal::NoObject.into()),
            Place::Object(target) => self.write(target, head, body, credentials, name).await,
        }
    }

    async fn write(
        &self,
        target: &Target,
        head: &Parts,
        body: Incoming,
        credentials: &HeaderValue,
        name: &mut String,
    ) -> Result<Reply, Ended> {
        let media_type = body::media_type(head.headers.get(CONTENT_TYPE));
        let verb = target.verb(&head.method, media_type == body::APPLY).ok_or(Refusal::NoObject)?;
        let place = timeout(PATIENCE, self.writes.acquire()).await;
        let _place = place.ok().and_then(Result::ok).ok_or(Refusal::Busy)?;
        let body = collect(body).await?;
        let read = || body::read(verb, target, &media_type, &body);
        let said = if body.len() > SMALL_BODY { tokio::task::block_in_place(read)? } else { read()? };
        if name.is_empty() {
            name.clone_from(&said.name);
        }
        let write = Write { verb, target, said, selector: Query::of(head).selector };
        let identity = match self.decided(&write, head, credentials).await? {
            Some(extension) => Some(self.identity(&extension, credentials).await?),
            None => None,
        };
        let user = identity.as_ref().map(|identity| identity.user.as_str());
        tracing::debug!(%verb, %target, namespace = target.namespace, name, user, "forwarded");
        self.count(if identity.is_some() { "impersonated" } else { "own" });
        self.forward(head, body, identity.as_ref()).await
    }

    /// Looks up what the decision needs until there is one: the extension to write as, or `None` for OLM itself.
    async fn decided(
        &self,
        write: &Write<'_>,
        head: &Parts,
        credentials: &HeaderValue,
    ) -> Result<Option<String>, Ended> {
        let mut known = Known::default();
        let mut absence = None;
        loop {
            match decide(write, &known, &self.rules) {
                Decision::Own => return Ok(None),
                Decision::As(extension) => return Ok(Some(extension)),
                Decision::Refused(refusal) => return Err(refusal.into()),
                Decision::Gone => {
                    self.count("gone");
                    return Err(absence.map_or(Refusal::NoObject.into(), Ended::Answered));
                }
                Decision::LookAtLive => {
                    let path = write.target.object_path(head.uri.path());
                    let answer = self.look(path, credentials, METADATA).await?;
                    if answer.status == StatusCode::NOT_FOUND {
                        known.live = Live::Absent;
                        absence = Some(answer);
                    } else {
                        known.live = Live::Found(Stored::read(&answer.body)?);
                    }
                }
                Decision::LookAtSet(set) => {
                    let extension = self.lead(&set, credentials).await?;
                    known.leads.push((set, extension));
                }
            }
        }
    }

    /// Looks up something that exists or does not. Any other answer is the answer to the request.
    async fn look(&self, path: &str, credentials: &HeaderValue, accept: &'static str) -> Result<Box<Answer>, Ended> {
        let answer = Box::new(self.upstream.get(path, credentials, accept).await?);
        match answer.status {
            StatusCode::OK | StatusCode::NOT_FOUND => Ok(answer),
            _ => {
                self.count("failed");
                Err(Ended::Answered(answer))
            }
        }
    }

    /// The extension that a set of objects leads to.
    async fn lead(&self, set: &Set, credentials: &HeaderValue) -> Result<Result<String, Refusal>, Ended> {
        let path = format!("/apis/{OLM}/v1/{}/{}", set.resource, set.name);
        let answer = self.look(&path, credentials, METADATA).await?;
        let nowhere = |why| Err(Refusal::Leaderless(set.to_string(), why));
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(nowhere("it does not exist"));
        }
        Ok(match Stored::read(&answer.body)?.owner() {
            Claim::Of(Owner::Extension(name)) => Ok(name),
            _ => nowhere("its own labels name none"),
        })
    }

    /// The identity that the API server is asked to impersonate.
    async fn identity(&self, extension: &str, credentials: &HeaderValue) -> Result<Identity, Ended> {
        if !self.service_accounts {
            return Ok(Identity::synthetic(extension));
        }
        let path = format!("/apis/{OLM}/v1/clusterextensions/{extension}");
        let answer = self.look(&path, credentials, JSON).await?;
        let unknown = |why: String| Refusal::Accountless(extension.to_owned(), why);
        if answer.status == StatusCode::NOT_FOUND {
            return Err(unknown("it does not exist".to_owned()).into());
        }
        let found: Extension =
            serde_json::from_slice(&answer.body).map_err(|error| unknown(format!("it cannot be read: {error}")))?;
        found.identity(extension).ok_or_else(|| unknown("what it names can be none".to_owned()).into())
    }

    async fn forward(&self, head: &Parts, body: Bytes, identity: Option<&Identity>) -> Result<Reply, Ended> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = head.method.clone();
        *request.headers_mut() = end_to_end(&head.headers);
        if let Some(identity) = identity {
            impersonate(request.headers_mut(), identity)?;
        }
        let path = head.uri.path_and_query().cloned().ok_or(Refusal::Malformed("it has no path"))?;
        let (mut answer, body) = self.upstream.send(request, path).await?.into_parts();
        answer.headers = end_to_end(&answer.headers);
        let watch = Query::of(head).watch;
        let (limit, stop) = (watch.unwrap_or(LONGEST_ANSWER), self.stop.clone());
        let end: std::pin::Pin<Box<dyn Future<Output = ()> + Send>> = match watch {
            None => Box::pin(tokio::time::sleep(limit)),
            // Shutting down ends watches, so that clients start them again.
            Some(_) => Box::pin(async move { timeout(limit, stop.told()).await.unwrap_or_default() }),
        };
        Ok(Response::from_parts(answer, Either::Right(Stream { answer: body, end, ends_well: watch.is_some() })))
    }

    fn refuse(&self, refusal: &Refusal, head: &Parts, target: Option<&Target>, name: &str) -> Reply {
        let verb = target.and_then(|target| target.verb(&head.method, false));
        let doing = verb.map_or_else(|| "forward".to_owned(), |verb| verb.to_string());
        tracing::warn!(method = %head.method, path = head.uri.path(), name, %refusal, "refused");
        let (code, _) = refusal.status();
        let status = refusal.to_status(&doing, target, name).to_string();
        let mut headers = hyper::HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        if matches!(refusal, Refusal::TooLarge(_) | Refusal::TooSlow(_)) && head.version == hyper::Version::HTTP_11 {
            // The rest of the body is not read, so the next request needs a new connection.
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if code.is_server_error() || code == StatusCode::TOO_MANY_REQUESTS {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            self.count("failed");
        } else {
            self.count("refused");
        }
        reply(code, headers, status.into())
    }

    fn count(&self, outcome: &'static str) {
        self.requests.get_or_create(&Outcome { outcome }).inc();
    }
}

fn reply(status: StatusCode, headers: hyper::HeaderMap, body: Bytes) -> Reply {
    let mut reply = Response::new(Either::Left(Full::new(body)));
    (*reply.status_mut(), *reply.headers_mut()) = (status, headers);
    reply
}

async fn collect(body: Incoming) -> Result<Bytes, Refusal> {
    match timeout(SLOWEST_BODY, Limited::new(body, LARGEST_BODY).collect()).await {
        Err(_) => Err(Refusal::TooSlow(SLOWEST_BODY.as_secs())),
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Refusal::TooLarge(LARGEST_BODY)),
        Ok(Err(_)) => Err(Refusal::Malformed("its body broke off")),
    }
}

/// The part of a query that matters.
struct Query {
    /// How long a watch lasts: as long as it specifies and a little longer, so that the API server is the one to end
    /// it.
    watch: Option<Duration>,
    /// The label selector; `None` if there are several, since it is undefined which one counts.
    selector: Option<String>,
}

impl Query {
    fn of(head: &Parts) -> Self {
        let query = head.uri.query().unwrap_or_default();
        let all = |key: &'static str| form_urlencoded::parse(query.as_bytes()).filter(move |(found, _)| found == key);
        let lasts = all("timeoutSeconds").find_map(|(_, value)| value.parse().ok()).map(Duration::from_secs);
        let lasts = lasts.unwrap_or(LONGEST_WATCH).min(LONGEST_WATCH) + Duration::from_secs(30);
        let watches = all("watch").any(|(_, value)| !matches!(&*value, "false" | "0"));
        let mut selectors = all("labelSelector").map(|(_, value)| value.into_owned());
        let selector = selectors.next().filter(|_| selectors.next().is_none());
        Query { watch: (watches || head.uri.path().contains("/watch/")).then_some(lasts), selector }
    }
}
