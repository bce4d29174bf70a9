//! Every policy alone, over pages that come, go and move, held word for word.
//! Room: onefold-flash.

mod bench;
mod cases;
mod choices;
