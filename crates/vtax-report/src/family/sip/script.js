
// A measurement that is pointed at opens.
(() => {
  const reveal = () => {
    const at = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (at && at.tagName === "DETAILS") at.open = true;
  };
  addEventListener("hashchange", reveal);
  reveal();
})();
