// Pages opened from the disk may start no Worker, which search needs: there its script runs in a hidden frame.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      this.frame.srcdoc = `<script src="${new URL(url, location)}"></script>`
      this.inside = new Promise(resolve => (this.frame.onload = () => resolve(this.frame.contentWindow)))
      // What the script posts is for the page; it would go to the frame itself.
      this.inside.then(inside => (inside.postMessage = data => this.receive(this, data)))
      document.documentElement.append(this.frame)
    }

    receive(target, data) {
      setTimeout(() => target.dispatchEvent(new MessageEvent("message", { data })))
    }

    postMessage(data) {
      this.inside.then(inside => this.receive(inside, data))
    }

    terminate() {
      this.frame.remove()
    }
  }
}
