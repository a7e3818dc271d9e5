//! `wad`: the agent and its command line. So far it starts its services over
//! readings of nothing, which is enough to scrape and to ask it.
#![expect(dead_code, reason = "services that nothing starts yet")]

mod api;
mod ceilings;
mod events;
mod instance;
mod journal;
mod log;
mod metrics;
mod status;
mod sysctl;

use std::{
    io,
    path::Path,
    sync::Arc,
    time::{Instant, SystemTime},
};

use anyhow::Context;
use tokio::sync::watch;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let run_dir = Path::new(instance::RUN_DIR);
    if std::env::args().nth(1).as_deref() == Some("status") {
        let status = status::ask(run_dir, "default").await?;
        return Ok(status::show(&status, status::Form::Table, &mut io::stdout())?);
    }
    log::init(log::Format::Text)?;
    let lock = instance::Lock::take(run_dir, "default")?;
    let tcp = api::bind_metrics("127.0.0.1:9464".parse()?).await?;
    let unix = api::bind_control(&lock)?;
    let about = api::About {
        instance: lock.instance().to_owned(),
        config: "/etc/wad/wad.toml".into(),
        cgroup: "/sys/fs/cgroup".into(),
        started: Instant::now(),
        started_at: SystemTime::now(),
    };
    let source = metrics::Source::new(|| Ok(metrics::Readings::default()));
    let api = Arc::new(api::Api { about, max_paths: 1000, source });
    let mut summaries = events::Summaries::default();
    if let Some(event) = events::parse(&[0; 208]) {
        summaries.closed(&event, "none");
    }
    let (stop, stopped) = watch::channel(false);
    let metrics = tokio::spawn(api::serve(tcp, api::metrics_router(Arc::clone(&api)), stopped));
    let control = tokio::spawn(api::serve(unix, api::control_router(api), stop.subscribe()));
    tokio::signal::ctrl_c().await.context("cannot wait for SIGINT")?;
    stop.send_replace(true);
    metrics.await?;
    Ok(control.await?)
}
