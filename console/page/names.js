// Names of things and channels where only their ids are known: asked for once, as links to their pages.

import { html } from 'htm/preact'
import { useEffect, useState } from 'preact/hooks'
import { get } from './api.js'
import { session } from './session.js'

/** By path, `things/<id>`; an empty name for what has none, or is not shown to this user. @type {Map<string, Promise<string>>} */
const known = new Map()
const knownMax = 2000
let { token } = session.value
session.onChange(() => {
  if (session.value.token !== token) known.clear()
  token = session.value.token
})

/** @param {string} path */
function nameOf(path) {
  const found = known.get(path)
  if (found !== undefined) return found
  if (known.size >= knownMax) known.clear()
  const asked = get(path).then(
    ({ name }) => String(name),
    () => '',
  )
  known.set(path, asked)
  return asked
}

/** @param {{ kind: 'things' | 'channels', id: string }} props */
export function Named({ kind, id }) {
  const path = `${kind}/${encodeURIComponent(id)}`
  const [name, setName] = useState('')
  useEffect(() => {
    let isShown = true
    void nameOf(path).then(name => isShown && setName(name))
    return () => {
      isShown = false
    }
  }, [path])
  return html`<a href=${`#/${path}`} title=${id}>${name || `${id.slice(0, 8)}…`}</a>`
}
