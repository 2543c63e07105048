// One mapping sent to a platform: what its answers mean, and what is tried again.

import { request } from 'undici'
import { ToolError } from '../../bin/streams.ts'
import type { Device } from './fleet.ts'
import type { ReportLine } from './fleet-report.ts'
import { short } from './text.ts'

/** A mapping is a transaction and, with certificates, some keys to make. */
const answerMsMax = 60_000
const attemptsMax = 8
const waitMsFirst = 500
const waitMsMax = 30_000
/** Longer than a platform should ask for. */
const retryAfterSecondsMax = 600
const errorCharactersMax = 300

const outcomes: Readonly<Record<number, ReportLine['outcome']>> = {
  201: 'created',
  200: 'present',
  409: 'conflict',
  400: 'refused',
  413: 'refused',
  422: 'refused',
}
/** Stands for a connection that broke, or was not made. */
const broken = 0
/** 429 may be of one device alone; the others say that the platform is not there. */
const passing: ReadonlySet<number> = new Set([broken, 429, 502, 503, 504])

export interface MappingTarget {
  /** Of the platform, without a slash at its end. */
  readonly base: string
  /** Of a user, or an API key; undefined where the platform has credentials of its own. */
  readonly token: string | undefined
  readonly dryRun: boolean
  /** Resolves after so many milliseconds. */
  readonly wait: (ms: number) => Promise<void>
}

/**
 * Maps one device. What passes (429, 502, 503, 504, a broken connection) is tried again, after what `Retry-After` says.
 *
 * @throws ToolError for what no device of the fleet would fare better with: no rights, no such endpoint, a platform that stays away
 */
export async function sendMapping({ base, token, dryRun, wait }: MappingTarget, device: Device): Promise<ReportLine> {
  const { externalId, externalKey, name } = device
  const body = JSON.stringify({ external_id: externalId, external_key: externalKey, name })
  const url = `${base}/mapping${dryRun ? '?dry_run=true' : ''}`
  for (let attempt = 1; ; attempt++) {
    const answer = await answerTo(url, body, token)
    const { status } = answer
    if (passing.has(status) && attempt < attemptsMax) {
      const backoffMs = Math.min(waitMsFirst * 2 ** (attempt - 1), waitMsMax) * (0.5 + Math.random() / 2)
      // At least: of many that wait, few have their turn after the first second.
      await wait(Math.max(answer.retryAfterMs ?? 0, backoffMs))
      continue
    }
    const outcome = outcomes[status] ?? 'failed'
    const error = wordsOf(answer)
    if (outcome === 'created' || outcome === 'present') {
      const things = thingsOf(base, answer.said, dryRun)
      return dryRun ? { externalId, outcome: 'valid' } : { externalId, outcome, things }
    }
    if (Object.hasOwn(refusals, status)) throw new ToolError(`${refusals[status]} (${url}: ${error})`)
    if (passing.has(status) && status !== 429)
      throw new ToolError(`${base} does not answer (${error}): give the same command again once it does, and it goes on where it was`)
    return { externalId, outcome, error }
  }
}

const refusals: Readonly<Record<number, string>> = {
  401: 'the platform does not know this token: give that of a user, or an API key, with --token or as SVC_TOKEN',
  403: 'this user may not make mappings',
  404: 'there is no provisioning service at this address: look at --url',
  405: 'there is no provisioning service at this address: look at --url',
}

interface Answer {
  /** `broken` where there is none. */
  readonly status: number
  readonly said: unknown
  readonly retryAfterMs?: number | undefined
}

async function answerTo(url: string, body: string, token: string | undefined): Promise<Answer> {
  try {
    const response = await request(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) },
      body,
      headersTimeout: answerMsMax,
      bodyTimeout: answerMsMax,
    })
    const said = jsonOf(await response.body.text())
    return { status: response.statusCode, said, retryAfterMs: retryAfterOf(response.headers['retry-after']) }
  } catch (error) {
    return { status: broken, said: { error: error instanceof Error ? error.message : String(error) } }
  }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    // A proxy's page: the status says enough.
    return undefined
  }
}

/** RFC 9110 §10.2.3: seconds, or a date. */
function retryAfterOf(header: string | string[] | undefined): number | undefined {
  if (typeof header !== 'string') return undefined
  const seconds = /^\d+$/.test(header) ? Number(header) : (Date.parse(header) - Date.now()) / 1000
  return Number.isNaN(seconds) ? undefined : Math.min(Math.max(0, seconds), retryAfterSecondsMax) * 1000
}

/** @throws ToolError where the answer is that of something else */
function thingsOf(base: string, said: unknown, dryRun: boolean): NonNullable<ReportLine['things']> {
  const { things } = (said ?? {}) as { things?: unknown }
  // A dry run knows no ids and keys.
  const isThing = (thing: unknown): boolean =>
    (dryRun && typeof thing === 'object' && thing !== null) ||
    (typeof (thing as { id?: unknown } | null)?.id === 'string' && typeof (thing as { key?: unknown }).key === 'string')
  if (!Array.isArray(things) || !things.every(isThing))
    throw new ToolError(`what answers at ${base}/mapping is no provisioning service: look at --url`)
  return things as NonNullable<ReportLine['things']>
}

function wordsOf({ status, said }: Answer): string {
  const { detail, error } = (said ?? {}) as { detail?: unknown; error?: unknown }
  const words = [detail, error].find(text => typeof text === 'string' && text !== '') as string | undefined
  return short([...(words === undefined ? [] : [words]), ...(status === broken ? [] : [`(${status})`])].join(' '), errorCharactersMax)
}
