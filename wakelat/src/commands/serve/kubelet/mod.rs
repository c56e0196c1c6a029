//! Asks the kubelet of this node for the names of its pods, in a thread of its own: an answer has megabytes, and parsing it
//! must not delay a reading of the kernel's tables.

mod request;
mod trust;

use std::{
    io,
    path::Path,
    sync::{Arc, mpsc::sync_channel},
    thread,
    time::Duration,
};

use anyhow::Result;
use tokio::{
    runtime::Builder,
    sync::Notify,
    time::{sleep, timeout},
};
use wakelat_core::service::pod_labels::KubeletResult;

use self::request::{Kubelet, KubeletFailure};
use super::{http_client::printable, totals::SharedTotals};
use crate::{config::KubeletSettings, status::status};

/// Time between two requests.
const INTERVAL: Duration = Duration::from_secs(60);

/// The shortest time between two requests, if a pod without a name appears.
const MIN_INTERVAL: Duration = Duration::from_secs(5);

/// Time after a request that failed.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// The requests to the kubelet.
pub struct KubeletRequests {
    /// Until the programs measure.
    kubelet: Option<Kubelet>,
    settings: KubeletSettings,
    unnamed: Arc<Notify>,
}

impl KubeletRequests {
    /// Prepares requests; needs files and the network.
    ///
    /// # Errors
    /// If the kubelet's host has no address, or the certificates to verify it cannot be read.
    pub fn open(settings: &KubeletSettings) -> Result<Self> {
        let kubelet = Kubelet::open(settings)?;
        if settings.insecure {
            status(format_args!(
                "warning: the certificate of the kubelet is not verified (`--kubelet-insecure`): a process that answers in \
                 place of `{}` gets the token of the service account and chooses the names of pods",
                settings.url.authority()
            ));
        }
        Ok(Self { kubelet: Some(kubelet), settings: settings.clone(), unnamed: Arc::default() })
    }

    /// The TCP port of the kubelet.
    pub fn port(&self) -> u16 {
        self.settings.url.port
    }

    /// The file of the token, if requests send one. Kubernetes replaces it.
    pub fn reads(&self) -> Option<&Path> {
        self.settings.url.is_https.then(|| self.settings.token())
    }

    /// Begins to ask, in a thread of its own, and adds the answers to `totals` until the process ends.
    ///
    /// # Errors
    /// If the kernel refuses the thread or its event loop.
    pub fn spawn(&mut self, totals: SharedTotals) -> io::Result<()> {
        let Some(kubelet) = self.kubelet.take() else { return Ok(()) };
        let unnamed = Arc::clone(&self.unnamed);
        let mut messages = KubeletMessages::new(self.settings.url.authority());
        let (started, result) = sync_channel(1);
        let work = move || match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => {
                _ = started.send(Ok(()));
                runtime.block_on(ask_forever(&kubelet, &totals, &unnamed, &mut messages));
            }
            Err(error) => _ = started.send(Err(error)),
        };
        thread::Builder::new().name("wakelat-kubelet".to_owned()).spawn(work)?;
        result.recv().unwrap_or_else(|_| Err(io::Error::other("the thread that asks the kubelet has ended")))
    }

    /// Asks soon, because a pod without a name has appeared.
    pub fn ask_soon(&self) {
        self.unnamed.notify_one();
    }
}

async fn ask_forever(kubelet: &Kubelet, totals: &SharedTotals, unnamed: &Notify, messages: &mut KubeletMessages) {
    loop {
        let answer = kubelet.pods().await;
        if let Some(message) = messages.after(answer.as_ref().err()) {
            status(message);
        }
        match answer {
            Ok(pods) => {
                totals.lock().kubelet_answered(KubeletResult::Success, Some(pods));
                sleep(MIN_INTERVAL).await;
                _ = timeout(INTERVAL - MIN_INTERVAL, unnamed.notified()).await;
            }
            Err(failure) => {
                totals.lock().kubelet_answered(failure.result, None);
                sleep(RETRY_INTERVAL).await;
            }
        }
    }
}

/// What to report about requests: each failure once while it lasts, and its end.
#[derive(Debug)]
struct KubeletMessages {
    kubelet: String,
    last_failure: Option<String>,
}

impl KubeletMessages {
    fn new(kubelet: String) -> Self {
        Self { kubelet, last_failure: None }
    }

    fn after(&mut self, failure: Option<&KubeletFailure>) -> Option<String> {
        // The reason may quote the answer.
        let why = failure.map(|failure| printable(&failure.why));
        if why == self.last_failure {
            return None;
        }
        self.last_failure.clone_from(&why);
        let message = why.map_or_else(|| "answers again".to_owned(), |why| format!("{why}; trying again"));
        Some(format!("kubelet {}: {message}", self.kubelet))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_reported_once_and_so_is_its_end() {
        let mut messages = KubeletMessages::new("a:10250".to_owned());
        let failure = |why: &str| KubeletFailure { result: KubeletResult::Failed, why: why.to_owned() };
        let (down, forbidden) = (failure("down"), failure("forbidden"));
        let hostile = messages.after(Some(&failure(&"\n".repeat(10_000)))).unwrap();
        assert!(hostile.len() < 300 && !hostile.contains('\n'), "{hostile}");
        messages.after(None);
        let all = [None, Some(&down), Some(&down), Some(&forbidden), None, None];
        let shown = all.map(|failure| messages.after(failure).unwrap_or_default());
        let expected = ["", "down; trying again", "", "forbidden; trying again", "answers again", ""];
        assert_eq!(
            shown,
            expected.map(|text| if text.is_empty() { String::new() } else { format!("kubelet a:10250: {text}") })
        );
    }
}
