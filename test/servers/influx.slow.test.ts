// The server of InfluxDB, as the tests have it: it answers, and does so again after it was ended, killed or halted, with what it acknowledged.

import { expect, test } from 'vitest'
import { describeWithInflux } from './influx.ts'

describeWithInflux('a server of InfluxDB', influx => {
  async function ask(path: string, body: string, type: string): Promise<string> {
    const response = await fetch(`${influx.url}${path}`, {
      method: 'POST',
      headers: { authorization: `Token ${influx.token}`, 'content-type': type },
      body,
      signal: AbortSignal.timeout(2000),
    })
    return `${response.status} ${await response.text()}`
  }
  const write = (line: string) => ask(`/api/v2/write?org=${influx.org}&bucket=${influx.bucket}&precision=ns`, line, 'text/plain')
  const read = () =>
    ask(`/api/v2/query?org=${influx.org}`, `from(bucket: "${influx.bucket}") |> range(start: 0) |> count()`, 'application/vnd.flux')

  test('what was acknowledged is there after each of its ends', { timeout: 60_000 }, async () => {
    expect(await write('m value=1 1000000000')).toBe('204 ')
    for (const [nth, how] of (['TERM', 'KILL'] as const).entries()) {
      await influx.restart(how)
      expect(await write(`m value=1 ${nth + 2}000000000`)).toBe('204 ')
      expect(await read()).toContain(`,${nth + 2},value,m`)
    }
    await influx.kill()
    await expect(write('m value=1 9')).rejects.toThrow()
    await influx.restart()
    expect(await read()).toContain(',3,value,m')
  })

  test('halted it says nothing, and goes on afterwards', async () => {
    influx.pause()
    await expect(read()).rejects.toThrow()
    influx.resume()
    expect(await read()).toContain('200')
  })
})
