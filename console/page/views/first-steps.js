// The first minute of an empty platform: a device, its first message, and where to see it. Each step marks itself when it has happened.

import { get, send } from '../api.js'
import { Action, Card, Copy, Field, Icon, Problem } from '../elements.js'
import { html, onText, useEffect, useLoaded, useRef, useState } from '../hooks.js'
import { Check } from './connectivity.js'
import { titleOf } from './list.js'

/** @import { Entity } from './list.js' */

const demoCommand = './sluice up --demo'

/** @param {{ home: import('../session.js').Home, sample: import('../session.js').Sample, onDone: () => void }} props */
export function FirstSteps({ home, sample, onDone }) {
  const device = useLoaded(findDevice, [])
  const [thing, channel] = device.value ?? []
  /** Another thing may have sent it than the one of the first step. */
  const stored = sample.ledger.stored > 0 ? sample.newest[0] : undefined
  // It may be created elsewhere, and an error may pass.
  useEffect(() => {
    if (thing === undefined) device.reload()
  }, [sample.at])
  if (!device.value && device.isLoading) return null
  const made =
    thing &&
    channel &&
    html`<p><a href=${`#/things/${thing.id}`}>${titleOf(thing)}</a> may publish to <a href=${`#/channels/${channel.id}`}>${titleOf(channel)}</a>.</p>`
  const seen =
    stored &&
    html`<p class="actions">
      <a class="button main" href=${`#/live/${stored.channel}?publisher=${stored.publisher}`}>Open it in Live</a>
      <button type="button" onClick=${onDone}>Show the overview</button>
    </p>`
  const steps = html`<ol class="plain stack steps">
    <${Step} number="1" title="Create a device" isDone=${thing !== undefined}>
      ${made ?? html`<${CreateDevice} onDone=${device.reload} />`}
    <//>
    <${Step} number="2" title="Send a message" isDone=${stored !== undefined}>
      ${thing ? html`<${Check} thing=${thing} home=${home} />` : html`<p class="quiet">As this device, from a terminal: in curl, Python, Node, Arduino or over MQTT.</p>`}
    <//>
    <${Step} number="3" title="See it" isDone=${false}>
      ${seen ?? html`<p class="quiet">As a chart that follows what comes in.</p>`}
    <//>
  </ol>`
  return html`<div class="cards">
    <${Card} title="Three steps to your first message">
      <${Problem} error=${device.error} />
      ${device.value && steps}
    <//>
    <${Demonstration} home=${home} onDone=${onDone} />
  </div>`
}

/** @param {{ number: string, title: string, isDone: boolean, children: import('../elements.js').Children }} props */
function Step({ number, title, isDone, children }) {
  return html`<li class=${isDone ? 'done' : ''}>
    <span class="mark">${isDone ? html`<${Icon} name="done" />` : number}</span>
    <div class="stack">
      <h3>${title}<span class="unseen" role="status">${isDone && ': done'}</span></h3>
      ${children}
    </div>
  </li>`
}

/** The newest thing and its channel, if it is connected. @param {AbortSignal} signal @returns {Promise<Entity[]>} */
async function findDevice(signal) {
  const [thing] = (await get('things', { query: { dir: 'desc', limit: 1 }, signal })).things
  if (thing === undefined) return []
  const [channel] = (await get(`things/${thing.id}/channels`, { query: { limit: 1 }, signal })).channels
  return channel === undefined ? [] : [thing, channel]
}

/** @param {{ onDone: () => void }} props */
function CreateDevice({ onDone }) {
  const [names, setNames] = useState({ things: 'thermometer', channels: 'house' })
  /** What was created before a step failed. */
  const { current: created } = useRef(/** @type {Record<string, string>} */ ({}))
  const create = async () => {
    for (const kind of /** @type {const} */ (['things', 'channels'])) {
      created[kind] ??= (await (await send('POST', `${kind}/bulk`, { body: [{ name: names[kind] }] })).json())[kind][0].id
    }
    await send('POST', 'connect', { body: { thing_ids: [created['things']], channel_ids: [created['channels']] } })
    onDone()
  }
  const name = (/** @type {'things' | 'channels'} */ kind, /** @type {string} */ label, /** @type {string} */ hint) =>
    html`<${Field} label=${label} hint=${hint}>
      <input value=${names[kind]} onInput=${onText(text => setNames({ ...names, [kind]: text }))} />
    <//>`
  return html`<div class="fields">
      ${name('things', 'Device', 'A thing: it gets a key of its own.')} ${name('channels', 'Channel', 'What it publishes to, and where it is read.')}
    </div>
    <${Action} kind="main" action=${create}>Create the device<//>`
}

/** @param {{ home: import('../session.js').Home, onDone: () => void }} props */
function Demonstration({ home, onDone }) {
  const start = async () => {
    await send('POST', 'console/demo/load', { body: { is_running: true } })
    onDone()
  }
  const here = html`<p>A hundred simulated devices publish once a second, until you stop them in <a href="#/break">Break something</a>.</p>
    <${Action} action=${start}>Show me with simulated devices<//>`
  const elsewhere = html`<p>For a hundred simulated devices, and faults to try, start it with <code>--demo</code>, on a machine where no messages matter:</p>
    <pre tabindex="0" aria-label="Command">${demoCommand}</pre> <p><${Copy} text=${demoCommand} label="Copy the command" /></p>`
  return html`<${Card} title="Or look first">${'demo' in home.links ? here : elsewhere}<//>`
}
