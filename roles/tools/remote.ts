// A running `sluice up` as the tools see it: the same questions, over HTTP, with the token of an administrator.

import { type Dispatcher, request } from 'undici'
import { ToolError } from '../../bin/streams.ts'
import type { TraceReport } from '../../pipeline/audit/trace.ts'
import type { VerifyReport } from '../../pipeline/audit/verify.ts'
import type { FullLetter, Letter } from '../../pipeline/letters/letter.ts'
import type { Letters, Selection, Settlement } from '../../pipeline/letters/letters.ts'
import type { StoreName } from '../stores/store.ts'

type Body = Dispatcher.ResponseData['body']

export interface Remote {
  readonly letters: Letters
  verify(): Promise<VerifyReport>
  trace(id: string): Promise<TraceReport>
}

/** @throws ToolError for another store than that of a running platform */
export function checkRemoteStore(store: StoreName): void {
  if (store !== 'relational')
    throw new ToolError(`a running \`sluice up\` has a relational store, and no ${store} one: leave --url out, or name relational`)
}

/**
 * The address of a platform without a slash at its end.
 *
 * @throws ToolError for what is none
 */
export function baseOf(url: string): string {
  if (!/^https?:\/\//.test(url) || !URL.canParse(url)) throw new ToolError(`--url ${JSON.stringify(url)} is none: give http://host:port`)
  return url.replace(/\/+$/, '')
}

/** Whether a header can hold it. */
export function isToken(text: string): boolean {
  return /^[\x21-\x7e]+$/.test(text)
}

/** @throws ToolError for a URL or a token that cannot be; asking throws it for whatever is refused */
export function openRemote(url: string, token: string | undefined): Remote {
  const base = baseOf(url)
  if (token === undefined || !isToken(token)) {
    throw new ToolError('--url needs the token of an administrator: give it with --token, or as SVC_TOKEN (POST /tokens makes one)')
  }
  /** What audits and settles answers at its end, and it may read for hours: an answer is waited for as long as the connection stands. */
  async function send(method: 'GET' | 'POST', path: string, body?: object): Promise<Body> {
    const asked = request(base + path, {
      method,
      headers: { authorization: `Bearer ${token}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      headersTimeout: 0,
      bodyTimeout: 0,
    })
    const response = await asked.catch((error: Error) => {
      throw new ToolError(`${base} cannot be reached (${error.message}): is \`sluice up\` running there?`, { cause: error })
    })
    if (response.statusCode === 200) return response.body
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
    return new ToolError(`the answer of ${base} broke off (${reason}): ask again, and look at its log`, { cause: error })
  }

  const letters: Letters = {
    list: (selection, limit) =>
      ask<{ letters: Letter[]; total: number }>('GET', `/admin/dead-letters?${queryOf(selection, { limit: String(limit) })}`),
    async *each(selection) {
      const answer = await send('GET', `/admin/dead-letters/export?${queryOf(selection)}`)
      try {
        for await (const line of linesOf(answer)) yield JSON.parse(line) as Letter
      } catch (error) {
        throw brokenOff(error)
      }
    },
    async show(id) {
      const { letters } = await ask<{ letters: FullLetter[] }>('GET', `/admin/dead-letters/${encodeURIComponent(id)}`)
      return letters
    },
    replay: selection => ask<Settlement>('POST', '/admin/dead-letters/replay', bodyOf(selection)),
    drop: selection => ask<Settlement>('POST', '/admin/dead-letters/drop', bodyOf(selection)),
  }

  return {
    letters,
    verify: () => ask<VerifyReport>('GET', '/admin/verify'),
    trace: id => ask<TraceReport>('GET', `/admin/messages/${encodeURIComponent(id)}/trace`),
  }
}

/** There, `all` stands for nothing else being said. */
function bodyOf({ ids, rule, channel }: Selection): object {
  if (ids === undefined && rule === undefined && channel === undefined) return { all: true }
  return { ids, rule, channel }
}

/** @throws ToolError for ids, by which nothing is listed there */
function queryOf({ ids, rule, channel, all }: Selection, more: Record<string, string> = {}): string {
  if (ids !== undefined) throw new ToolError('dead letters are listed by rule and channel: look at one by its id with sluice dlq show')
  const query = new URLSearchParams(more)
  if (rule !== undefined) query.set('rule', rule)
  if (channel !== undefined) query.set('channel', channel)
  if (all === true) query.set('all', 'true')
  return query.toString()
}

/** Lines that end: what stands behind the last end of one is none. */
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
  if (status === 403) return "this token is not an administrator's: get that of one with POST /tokens"
  return `${said.detail ?? said.error ?? 'the platform refused'} (${status})`
}
