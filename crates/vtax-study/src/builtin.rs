//! Studies that are part of the program.

/// A file of a study: its name within the folder, and its text.
type StudyFile = (&'static str, &'static str);

/// Takes in a file of a study.
macro_rules! file {
    ($study:literal, $name:literal) => {
        ($name, include_str!(concat!("../../../studies/", $study, "/", $name)))
    };
}

/// Every study with its files, in the order in which they were added.
const STUDIES: [(&str, &[StudyFile]); 5] = [
    (
        "virtual-servers",
        &[
            file!("virtual-servers", "claims.yaml"),
            file!("virtual-servers", "plans/desktops-quick.yaml"),
            file!("virtual-servers", "plans/desktops.yaml"),
            file!("virtual-servers", "plans/disks-quick.yaml"),
            file!("virtual-servers", "plans/disks.yaml"),
            file!("virtual-servers", "plans/ftp-quick.yaml"),
            file!("virtual-servers", "plans/ftp.yaml"),
            file!("virtual-servers", "plans/network-quick.yaml"),
            file!("virtual-servers", "plans/network.yaml"),
            file!("virtual-servers", "plans/raid-quick.yaml"),
            file!("virtual-servers", "plans/raid.yaml"),
            file!("virtual-servers", "plans/san-quick.yaml"),
            file!("virtual-servers", "plans/san.yaml"),
        ],
    ),
    (
        "virtual-nas",
        &[
            file!("virtual-nas", "claims.yaml"),
            file!("virtual-nas", "plans/cards-quick.yaml"),
            file!("virtual-nas", "plans/cards.yaml"),
            file!("virtual-nas", "plans/drivers-quick.yaml"),
            file!("virtual-nas", "plans/drivers.yaml"),
            file!("virtual-nas", "plans/nas-quick.yaml"),
            file!("virtual-nas", "plans/nas.yaml"),
        ],
    ),
    (
        "virtualized-ims",
        &[
            file!("virtualized-ims", "claims.yaml"),
            file!("virtualized-ims", "plans/capacity-quick.yaml"),
            file!("virtualized-ims", "plans/capacity.yaml"),
            file!("virtualized-ims", "plans/delays-quick.yaml"),
            file!("virtualized-ims", "plans/delays.yaml"),
        ],
    ),
    (
        "consolidated-servers",
        &[
            file!("consolidated-servers", "claims.yaml"),
            file!("consolidated-servers", "plans/ftp-quick.yaml"),
            file!("consolidated-servers", "plans/ftp.yaml"),
            file!("consolidated-servers", "plans/web-quick.yaml"),
            file!("consolidated-servers", "plans/web.yaml"),
        ],
    ),
    (
        "virtual-links",
        &[
            file!("virtual-links", "claims.yaml"),
            file!("virtual-links", "plans/links-quick.yaml"),
            file!("virtual-links", "plans/links.yaml"),
        ],
    ),
];

/// Names of the studies that are part of the program.
#[must_use]
pub fn names() -> Vec<&'static str> {
    STUDIES.iter().map(|(name, _)| *name).collect()
}

/// The files of one of them.
#[must_use]
pub fn built_in(name: &str) -> Option<&'static [(&'static str, &'static str)]> {
    STUDIES.iter().find(|(known, _)| *known == name).map(|(_, files)| *files)
}
