//! Roof: experiments, with published numbers beside measured ones.
//!
//! An experiment is a function from [`Settings`] to [`Row`]s. What surrounds it, in the order in
//! which a run meets it:
//! - [`registry`] is the one table of experiments; adding one is adding a line there;
//! - [`spec`] reads its parameters, and where each comes from; [`published`] the paper's numbers;
//! - [`sweep`](mod@sweep) runs many points on all cores with the same results on any number;
//! - [`row`] sets measured beside published; [`report`] prints rows as text and as a page;
//! - [`plot`] draws charts as SVG.
//!
//! Specs and published numbers live in `experiments/<paper>/<table or figure>/` and are built in.

pub mod error;
pub mod experiments;
pub mod plot;
pub mod published;
pub mod registry;
pub mod report;
pub mod row;
pub mod settings;
pub mod spec;
pub mod sweep;

pub use error::{LabError, Result};
pub use plot::Chart;
pub use published::Published;
pub use registry::{EXPERIMENTS, Experiment, Outcome, find};
pub use row::{Kind, Row};
pub use settings::{Options, Settings};
pub use spec::{Parameter, Spec};
pub use sweep::sweep;
