// Client of a running `./sluice up` for the tools: the same operations over HTTP, with the token of an administrator.

import { setTimeout as wait } from 'node:timers/promises'
import type { Dispatcher } from 'undici'
import { ToolError } from '../../../bin/streams.ts'
import type { TraceReport } from '../../../pipeline/audit/trace.ts'
import type { VerifyReport } from '../../../pipeline/audit/verify.ts'
import type { DeadLetterFilter } from '../../../pipeline/dead-letters/filter.ts'
import type { DeadLetterQueue, DropReport } from '../../../pipeline/dead-letters/queue.ts'
import type { Replay, ReplayReport } from '../../../pipeline/dead-letters/replay.ts'
import type { DeadLetterSummary, FullDeadLetter } from '../../../pipeline/dead-letters/summary.ts'
import type { Erase, EraseReport } from '../../../pipeline/erase/erase.ts'
import type { JobStatus } from '../../../pipeline/job.ts'
import type { Erasure } from '../../../sinks/erasure.ts'
import type { StoreName } from '../../stores/store.ts'

/** How often the status of a running replay is polled. */
const askAgainMs = 250

type Body = Dispatcher.ResponseData['body']

export interface Remote {
  readonly deadLetters: DeadLetterQueue
  /** Starts a replay on the platform, and waits until it has ended. */
  readonly replay: Replay
  /** Starts an erasure on the platform, and waits until it has ended. */
  readonly erase: Erase
  erasures(): Promise<readonly Erasure[]>
  /** @param contents whether to compare the columns of the rows, too */
  verify(contents?: boolean): Promise<VerifyReport>
  trace(id: string): Promise<TraceReport>
}

/** @throws ToolError if the running platform has no such store */
export function checkRemoteStore(store: StoreName): void {
  if (store !== 'relational')
    throw new ToolError(`a running \`./sluice up\` has a relational store, but no ${store} one: omit --url, or use relational`)
}

/**
 * The address of a platform without a trailing slash.
 *
 * @throws ToolError if it is not a valid address
 */
export function baseOf(url: string): string {
  if (!/^https?:\/\//.test(url) || !URL.canParse(url))
    throw new ToolError(`--url ${JSON.stringify(url)} is not a valid address: give http://host:port`)
  return url.replace(/\/+$/, '')
}

/** Whether the text is valid in a header. */
export function isToken(text: string): boolean {
  return /^[\x21-\x7e]+$/.test(text)
}

/** @throws ToolError for an invalid URL or token; the methods throw it for rejected requests */
export function openRemote(url: string, token: string | undefined): Remote {
  const base = baseOf(url)
  if (token === undefined || !isToken(token)) {
    throw new ToolError('--url needs the token of an administrator: give it with --token or SVC_TOKEN (POST /tokens returns one)')
  }
  /** No time limit: an audit answers only at its end and may take hours. */
  async function send(method: 'GET' | 'POST', path: string, body?: object): Promise<Body> {
    const { request } = await import('undici')
    const asked = request(base + path, {
      method,
      headers: { authorization: `Bearer ${token}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      headersTimeout: 0,
      bodyTimeout: 0,
    })
    const response = await asked.catch((error: Error) => {
      throw new ToolError(`${base} cannot be reached (${error.message}): is \`./sluice up\` running there?`, { cause: error })
    })
    if (response.statusCode === 200 || response.statusCode === 202) return response.body
    throw new ToolError(await refusal(response.statusCode, response.body))
  }

  async function ask<Answer>(method: 'GET' | 'POST', path: string, body?: object): Promise<Answer> {
    const answer = await send(method, path, body)
    try {
      return (await answer.json()) as Answer
    } catch (error) {
      throw brokenOff(error)
    }
  }

  function brokenOff(error: unknown): ToolError {
    const reason = error instanceof Error ? error.message : String(error)
    return new ToolError(`the answer of ${base} was cut off (${reason}): retry, and check its log`, { cause: error })
  }

  const deadLetters: DeadLetterQueue = {
    list: (filter, limit) =>
      ask<{ letters: DeadLetterSummary[]; total: number }>('GET', `/admin/dead-letters?${queryOf(filter, { limit: String(limit) })}`),
    async *each(filter) {
      const answer = await send('GET', `/admin/dead-letters/export?${queryOf(filter)}`)
      try {
        for await (const line of linesOf(answer)) yield JSON.parse(line) as DeadLetterSummary
      } catch (error) {
        throw brokenOff(error)
      }
    },
    async show(id) {
      const { letters } = await ask<{ letters: FullDeadLetter[] }>('GET', `/admin/dead-letters/${encodeURIComponent(id)}`)
      return letters
    },
    drop: filter => ask<DropReport>('POST', '/admin/dead-letters/drop', bodyOf(filter)),
  }

  const replay: Replay = async (filter, { dryRun = false, onProgress } = {}) => {
    const body = { ...bodyOf(filter), dry_run: dryRun }
    return runJob<ReplayReport>('/admin/dead-letters/replay', body, 'replay', 'the dead letters stored so far are resolved', onProgress)
  }

  const erase: Erase = async ({ channel, publisher, beforeMs }, { dryRun = false, onProgress } = {}) => {
    const before = beforeMs === undefined ? undefined : new Date(beforeMs).toISOString()
    const body = { channel, publisher, before, dry_run: dryRun }
    return runJob<EraseReport>('/admin/erase', body, 'erasure', 'what was deleted so far stays deleted', onProgress)
  }

  /** Starts a job of the platform, and waits until it has ended. */
  async function runJob<Report>(
    path: string,
    body: object,
    what: string,
    done: string,
    onProgress: ((done: number, total: number) => void) | undefined,
  ): Promise<Report> {
    let status = await ask<JobStatus<Report>>('POST', path, body)
    const { job } = status
    while (status.state === 'running') {
      await wait(askAgainMs)
      status = await ask<JobStatus<Report>>('GET', path)
      if (status.job !== job) throw new ToolError(`${base} was restarted before the ${what} ended: start the ${what} again to resume it`)
      onProgress?.(status.done, status.total)
    }
    if (status.report !== undefined) return status.report
    throw new ToolError(`the ${what} failed (${status.error}): ${done}; start it again to resume`)
  }

  return {
    deadLetters,
    replay,
    erase,
    erasures: async () => (await ask<{ erasures: Erasure[] }>('GET', '/admin/erasures')).erasures,
    verify: (contents = false) => ask<VerifyReport>('GET', `/admin/verify${contents ? '?contents=true' : ''}`),
    trace: id => ask<TraceReport>('GET', `/admin/messages/${encodeURIComponent(id)}/trace`),
  }
}

/** In the API, `all` means that no other filter is given. */
function bodyOf({ ids, rule, channel }: DeadLetterFilter): object {
  if (ids === undefined && rule === undefined && channel === undefined) return { all: true }
  return { ids, rule, channel }
}

/** @throws ToolError for ids, which the list route does not support */
function queryOf({ ids, rule, channel, all }: DeadLetterFilter, more: Record<string, string> = {}): string {
  if (ids !== undefined)
    throw new ToolError('dead letters can be listed by rule and channel only: show one by its id with ./sluice dlq show')
  const query = new URLSearchParams(more)
  if (rule !== undefined) query.set('rule', rule)
  if (channel !== undefined) query.set('channel', channel)
  if (all === true) query.set('all', 'true')
  return query.toString()
}

/** Complete lines only: text after the last line end is dropped. */
async function* linesOf(body: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const bytes of body) {
    const lines = (rest + decoder.decode(bytes, { stream: true })).split('\n')
    rest = lines.pop()!
    yield* lines
  }
}

async function refusal(status: number, body: Body): Promise<string> {
  const said = (await body.json().catch(() => ({}))) as { detail?: string; error?: string }
  if (status === 403) return "this token is not an administrator's: get one with POST /tokens"
  return `${said.detail ?? said.error ?? 'the platform rejected the request'} (${status})`
}
