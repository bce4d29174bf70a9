//! Roof: experiments, with published numbers beside measured ones.
//!
//! An experiment is a function from [`Settings`] to [`Data`]: series of numbers with units, seeds
//! and ranges, and whether what a paper's pictures show is so. What surrounds it, in the order in
//! which a run meets it:
//! - [`registry`] is the one table of experiments; adding one is adding a folder and a line there;
//! - [`spec`] reads its parameters, and where each comes from; [`judged`] what kind of number each
//!   published one is; [`published`] the paper's numbers;
//! - [`sweep`](mod@sweep) runs many points on all cores with the same results on any number;
//!   [`shared`] keeps what several experiments run alike;
//! - [`series`] holds what is found, [`shape`] says whether a curve falls or lies above another;
//! - [`row`], [`report`] and [`plot`] are views: lists, pages of tables, charts as SVG.
//!
//! Specs and published numbers live in `experiments/<paper>/<table or figure>/` and are built in.

pub mod error;
pub mod experiments;
pub mod judged;
pub mod plot;
pub mod published;
pub mod registry;
pub mod report;
pub mod row;
pub mod series;
pub mod settings;
pub mod shape;
pub mod shared;
pub mod spec;
pub mod sweep;

pub use error::{LabError, Result};
pub use judged::{Kind, Search};
pub use plot::Chart;
pub use published::Published;
pub use registry::{EXPERIMENTS, Experiment, Outcome, find};
pub use row::Row;
pub use series::{At, Claim, Data, Line, Point, Series, Spread};
pub use settings::{Options, Settings};
pub use shared::Shared;
pub use spec::{Parameter, Spec};
pub use sweep::sweep;
