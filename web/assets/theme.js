"use strict";(()=>{try{let t=localStorage.getItem("tilus-theme");t&&(document.documentElement.dataset.theme=t)}catch{}})();
