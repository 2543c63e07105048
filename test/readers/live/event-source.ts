// A client of server-sent events for tests, by the letter of WHATWG HTML ("Server-sent events"), with headers, which a browser's cannot set.

export interface SentEvent {
  /** `message` where none is named. */
  readonly name: string
  readonly data: string
  /** As the client knows it when the event is dispatched. */
  readonly lastEventId: string
}

export interface EventClient {
  readonly status: number
  readonly headers: Headers
  /** Those without a name. */
  readonly records: SentEvent[]
  /** Those with one: `lost`, `end`. */
  readonly named: SentEvent[]
  /** Comments, each without its colon. */
  readonly comments: string[]
  /** What a client that comes back sends. */
  lastEventId(): string
  /** Of `retry:`; undefined where none was sent. */
  retryMs(): number | undefined
  /** The fields `Name` of the records. */
  names(): string[]
  until(records: number): Promise<void>
  /** Resolves with the first event with a name that matches, also one that came before. */
  untilNamed(matches: (event: SentEvent) => boolean): Promise<SentEvent>
  /** Resolves when the server ends it; with an error where the connection broke. */
  readonly closed: Promise<Error | undefined>
  /** Goes away. */
  leave(): void
}

/** Fetch drops a body to which there is no reference. */
const open = new Set<Response>()

/** @throws Error with status and body where it is no stream of events */
export async function openEvents(url: string, headers: Record<string, string>): Promise<EventClient> {
  const leaving = new AbortController()
  const response = await fetch(url, { headers, signal: leaving.signal })
  if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`)
  open.add(response)
  const records: SentEvent[] = []
  const named: SentEvent[] = []
  const comments: string[] = []
  const waiting: { count: number; resolve: () => void; reject: (error: Error) => void }[] = []
  const searching = new Set<() => void>()
  let lastEventId = ''
  let retryMs: number | undefined
  let idBuffer = ''
  let data = ''
  let name = ''

  function line(text: string): void {
    if (text === '') return dispatch()
    const colon = text.indexOf(':')
    if (colon === 0) return void comments.push(text.slice(1))
    const field = colon < 0 ? text : text.slice(0, colon)
    const value = colon < 0 ? '' : text.slice(colon + 1).replace(/^ /, '')
    if (field === 'data') data += `${value}\n`
    else if (field === 'event') name = value
    else if (field === 'id' && !value.includes('\0')) idBuffer = value
    else if (field === 'retry' && /^\d+$/.test(value)) retryMs = Number(value)
  }

  function dispatch(): void {
    lastEventId = idBuffer
    if (data !== '') (name === '' ? records : named).push({ name: name === '' ? 'message' : name, data: data.slice(0, -1), lastEventId })
    data = ''
    name = ''
    for (const one of waiting) if (records.length >= one.count) one.resolve()
    for (const look of searching) look()
  }

  async function read(): Promise<Error | undefined> {
    let rest = ''
    try {
      for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
        const lines = (rest + chunk).split('\n')
        rest = lines.pop()!
        for (const one of lines) line(one)
      }
      return undefined
    } catch (error) {
      return error as Error
    }
  }

  const closed = read()
  void closed.then(error => {
    open.delete(response)
    for (const look of searching) look()
    for (const one of waiting) one.reject(new Error(`the stream ended with ${records.length} of ${one.count} records: ${String(error)}`))
  })
  return {
    status: response.status,
    headers: response.headers,
    records,
    named,
    comments,
    lastEventId: () => lastEventId,
    retryMs: () => retryMs,
    names: () => records.map(record => (JSON.parse(record.data) as { Name: string }).Name),
    until: count =>
      new Promise((resolve, reject) => {
        if (records.length >= count) resolve()
        else waiting.push({ count, resolve, reject })
      }),
    untilNamed: matches =>
      new Promise((resolve, reject) => {
        function look(): void {
          const found = named.find(matches)
          if (found !== undefined) resolve(found)
          else if (!open.has(response)) reject(new Error(`the stream ended before such an event; the last one is ${named.at(-1)?.data}`))
          else return void searching.add(look)
          searching.delete(look)
        }
        look()
      }),
    closed,
    leave: () => leaving.abort(),
  }
}
