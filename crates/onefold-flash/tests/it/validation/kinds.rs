//! Few types for many tests: the FTL is compiled anew for each array, policy and driver.
//! Room: onefold-flash.

use onefold_flash::Geometry;
use onefold_flash::dedup::{AnyPolicy, Identities, Site};
use onefold_flash::nand::{Faults, Identity, IdentityNand, PowerCut, Sizes};
use onefold_flash::op::{Driver, Untimed};

use super::plane::plane;

/// Identities, whether or not it is planned that anything goes wrong.
pub type Array = PowerCut<IdentityNand>;

/// An array of which nothing goes wrong.
pub fn array(geometry: Geometry) -> Array {
    sized(geometry, None)
}

/// The same, where compressed pages or codewords have sizes.
pub fn sized(geometry: Geometry, sizes: Option<Sizes>) -> Array {
    PowerCut::new(IdentityNand::new(geometry).with_sizes(sizes), Faults::default())
}

/// No deduplication, of the type that any policy has.
pub fn none() -> AnyPolicy<Identities> {
    let site = Site::new(plane(1, 1), None);
    let options = toml::Table::new();
    AnyPolicy::new::<Identity>("none", &options, &site, Identities).expect("it takes no options")
}

/// No time, of the type that any driver has.
pub fn untimed() -> &'static mut dyn Driver {
    // Nothing is leaked: it has no size.
    Box::leak(Box::new(Untimed))
}

/// A driver, of the type that any driver has.
pub fn timed(driver: &mut dyn Driver) -> &mut dyn Driver {
    driver
}
