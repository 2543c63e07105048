// What things and channels did lately, with few and bounded requests, which only rows in sight make.

import { get, getPage } from '../api.js'
import { session } from '../session.js'

/** @typedef {'things' | 'channels'} Kind */
/** @import { Home } from '../session.js' */
/** `newest`: seconds since 1970; `line`: numbers in each step of the last hour, undefined if there are too many series. */
/** @typedef {{ connected: number, newest?: number | undefined, line?: number[] | undefined }} Activity */

/** Of a thing, which is rarely connected to more. */
const channelsMax = 10
const formatsMax = 5
const bucketsMax = 5000
const pageMax = 1000
const [steps, stepSeconds] = [12, 300]

/** Whether messages are read here. @param {Home} home */
export const isReader = ({ services }) => services.some(service => service.startsWith('reader'))
export const otherKind = { things: /** @type {const} */ ('channels'), channels: /** @type {const} */ ('things') }

/** @param {Kind} kind @param {string} id @param {Home} home @param {AbortSignal} signal @returns {Promise<Activity>} */
export async function activityOf(kind, id, home, signal) {
  const other = await get(`${kind}/${id}/${otherKind[kind]}`, { query: { limit: kind === 'things' ? channelsMax : 1 }, signal })
  /** @type {string[]} */
  const channels = kind === 'channels' ? [id] : other.channels.map((/** @type {{ id: string }} */ { id }) => id)
  const connected = other.total
  if (!isReader(home) || channels.length === 0) return { connected }
  const query = { channel: channels, ...(kind === 'things' && { publisher: id }) }
  const [newest, line] = await Promise.all([newestOf(query, signal), lineOf(query, signal)])
  return { connected, newest, line }
}

/** @param {{ channel: string[] }} query @param {AbortSignal} signal */
async function newestOf(query, signal) {
  const formats = (await Promise.all(query.channel.map(formatsOf))).flat()
  const newest = [...new Set(['messages', ...formats])].slice(0, formatsMax).map(async format => {
    const [record] = (await getPage('messages', { ...query, format, limit: '1', count: 'none' }, signal)).messages
    return record === undefined ? -Infinity : (record.Time ?? record.Created / 1e9)
  })
  const time = Math.max(...(await Promise.all(newest)))
  return time === -Infinity ? undefined : time
}

/** Once a minute, for all who ask. @param {string} channel @returns {Promise<string[]>} */
async function formatsOf(channel) {
  const key = `${channel} ${Math.floor(Date.now() / 60_000)}`
  const formats = await session.remember(key, () => get(`channels/${channel}/formats`).then(answer => JSON.stringify(answer.formats)))
  return JSON.parse(formats).map((/** @type {{ format: string }} */ { format }) => format)
}

/** @param {{ channel: string[] }} query @param {AbortSignal} signal */
async function lineOf(query, signal) {
  const from = (Math.floor(Date.now() / 1000 / stepSeconds) - steps + 1) * stepSeconds
  const asked = { ...query, aggregation: 'count', interval: `${stepSeconds}s`, from: String(from), limit: String(pageMax) }
  const line = Array.from({ length: steps }, () => 0)
  for (let offset = 0; ; offset += pageMax) {
    const { messages, total = 0 } = await getPage('messages', { ...asked, offset: String(offset) }, signal)
    if (total > bucketsMax) return undefined
    for (const { Time, Count } of messages) {
      const at = (Time - from) / stepSeconds
      if (at in line) line[at] = (line[at] ?? 0) + Count
    }
    if (offset + pageMax >= total) return line
  }
}

/** The newest open dead letters, for administrators where they are served. @param {Home} home @param {AbortSignal} signal */
export async function openLetters({ services }, signal) {
  if (!session.value.isAdministrator || !services.includes('writer')) return undefined
  /** @type {{ total: number, letters: import('./dead-letters.js').Letter[] }} */
  const found = await get('admin/dead-letters', { query: { limit: pageMax }, signal })
  return found
}
