// Before anything is painted: the theme that the user chose for this browser, if any. Not a module, which would run after the first paint.

document.documentElement.style.colorScheme = localStorage.getItem('sluice.theme') ?? ''
