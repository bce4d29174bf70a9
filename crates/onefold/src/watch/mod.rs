//! A server as others see it: metrics for Prometheus, and the page for people.
//! Room: onefold.
//! Invariants: (1) nothing is changed from here  (2) what is seen is measured at most a few times a
//! second, however many look  (3) whoever hangs or floods has one of a few places, for a while.

mod listen;
mod sampler;
mod site;
mod source;

use std::sync::Arc;
use std::time::Duration;

use onefold_control::{Guarded, Limits, Server};
use onefold_nbd::{TlsError, TlsFiles};

use crate::output::Printer;
pub use listen::Prepared;
#[cfg(feature = "top")]
pub use listen::token;
use sampler::Sampler;
use site::Site;
#[cfg(feature = "models")]
pub use source::process_sample;
pub use source::{PoolSource, Source, pool_sample};

/// No request from outside brings anything with it.
const BODY_BYTES_MAX: usize = 16 << 10;
/// How long a connection may say nothing: longer than scrapes are apart.
const IDLE: Duration = Duration::from_secs(75);

/// What answers, while the server runs.
pub struct Watch {
    sampler: Arc<Sampler>,
    server: Server,
    files: Option<(TlsFiles, bool)>,
}

impl Prepared {
    /// Begin to answer.
    pub fn begin(self, source: impl Source) -> std::io::Result<Watch> {
        let sampler = Arc::new(Sampler::new(Arc::new(source)));
        let site = Guarded::new(Arc::new(Site::new(Arc::clone(&sampler))), self.access);
        let limits = Limits { body_bytes: BODY_BYTES_MAX, idle: IDLE, ..Limits::default() };
        let server = Server::on_address(self.listener, self.tls, Arc::new(site), limits)?;
        Ok(Watch { sampler, server, files: self.files })
    }
}

/// Begin to answer at a place, and say where; without it everything else is as it should be.
pub fn begin(place: Prepared, source: impl Source, printer: &Printer) -> Option<Watch> {
    let address = place.address();
    match place.begin(source) {
        Ok(watch) => {
            printer.always(&format!("seen at {address} and {address}metrics"));
            Some(watch)
        }
        Err(error) => {
            printer.warning(&format!("metrics and the page cannot be seen: {error}"));
            None
        }
    }
}

impl Watch {
    /// Read the certificates again, for connections from now on.
    pub fn renew_tls(&self) -> Result<(), TlsError> {
        let Some((files, certified)) = &self.files else { return Ok(()) };
        files.load(*certified).map(|settings| self.server.renew_tls(settings))
    }

    /// Say no more.
    pub fn stop(self) {
        self.sampler.close();
    }
}

#[cfg(test)]
mod tests {
    use super::sampler::tests::Nothing;
    use super::*;
    use crate::args::MetricsArgs;
    use crate::serve::handed::Sockets;

    #[test]
    fn who_is_told_second_by_second_hears_at_once_that_there_is_no_more() {
        let at = Some("127.0.0.1:0".to_owned());
        let args = MetricsArgs { metrics: at, metrics_token_file: None };
        let place = Prepared::new(&args, &mut Sockets::default(), None).unwrap().unwrap();
        let printer = Printer::kept(false);
        let address = place.address();
        let watch = begin(place, Nothing, &printer).unwrap();
        assert_eq!(printer.told(), format!("seen at {address} and {address}metrics\n"));
        watch.renew_tls().unwrap();
        let mut stream = watch.sampler.stream().unwrap();
        assert!(stream.next().is_some());
        watch.stop();
        assert_eq!(stream.next(), None);
    }
}
