// Before anything is painted: the colours that were chosen last.
try {
  const t = localStorage.getItem("tilus-theme");
  if (t) document.documentElement.dataset.theme = t;
} catch {
  // Storage may be forbidden; then the system's colours hold.
}

export {};
