// What the console costs: bytes and requests of its first load, frames a second of its charts at 10,000 points a second in a real Chromium, and how
// long publishers wait with and without 50 open overviews.
//
// node benchmarks/up/console.ts [--seconds 10] [--consoles 50] [--rounds 5]

import { setTimeout as wait } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { openBrowser, visit } from '../../test/console/visitor.ts'
import { sendPoints } from '../../test/readers/live/chart-points.ts'
import { openEvents } from '../../test/readers/live/event-source.ts'
import { expectStatus, makeSiteOf, publish, type Site } from '../../test/up/operator.ts'
import { administrator, disposableFolder, startPlatform } from '../../test/up/platform.ts'
import { median } from '../median-time.ts'

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '10' },
    consoles: { type: 'string', default: '50' },
    rounds: { type: 'string', default: '5' },
  },
})
const seconds = Number(values.seconds)
const consoles = Number(values.consoles)

await using folder = await disposableFolder()
const environment = { SVC_ADMIN_EMAIL: administrator.email, SVC_ADMIN_PASSWORD: administrator.password }
const platform = await startPlatform({ data: folder.path, environment })
const site = await makeSiteOf(platform.url, administrator)
await firstLoad()
await charts()
await publishersBesideConsoles()
await platform.stop()

async function firstLoad(): Promise<void> {
  const browser = await openBrowser()
  const visitor = await visit(browser, 'about:blank')
  const sizes: Promise<number>[] = []
  visitor.page.on('requestfinished', request => {
    sizes.push(request.sizes().then(({ responseBodySize, responseHeadersSize }) => responseBodySize + responseHeadersSize))
  })
  await visitor.page.goto(platform.url)
  await visitor.page.getByLabel('Email').waitFor()
  const bytes = (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0)
  console.log(`first load: ${sizes.length} requests, ${(bytes / 1024).toFixed(0)} KiB with headers`)
  await visitor[Symbol.asyncDispose]()
  await browser.close()
}

async function charts(): Promise<void> {
  const browser = await openBrowser()
  const visitor = await visit(browser, platform.url)
  await visitor.signIn(administrator)
  const { page } = visitor
  await visitor.go(`#/live/${site.channel}`)
  await page.getByText('following').waitFor()
  const gaps = `new Promise(resolve => {
    const gaps = []
    let last = performance.now()
    const ends = last + ${seconds * 1000}
    requestAnimationFrame(function frame(at) {
      gaps.push(at - last)
      last = at
      if (at < ends) requestAnimationFrame(frame)
      else resolve(gaps)
    })
  })`
  const drawn = async (): Promise<number> => Number((await page.locator('.charts').getAttribute('data-frames')) ?? 0)
  const idle = await page.evaluate<number[]>(gaps)
  const before = await drawn()
  const startMs = performance.now()
  const [busy, sent] = await Promise.all([page.evaluate<number[]>(gaps), sendPoints(platform.url, site, seconds)])
  const frames = (await drawn()) - before
  const tookSeconds = (performance.now() - startMs) / 1000
  await page.waitForFunction(`Number(document.querySelector('.charts').dataset.points) === ${sent}`)
  const say = (what: string, one: readonly number[]): void =>
    console.log(
      `${what}: ${(one.length / seconds).toFixed(1)} frames a second, longest gap ${Math.max(...one.slice(1)).toFixed(0)} ms, ${one.filter(gap => gap > 50).length} above 50 ms`,
    )
  say('charts, idle', idle)
  say(`charts, ${(sent / tookSeconds).toFixed(0)} points a second, all drawn`, busy)
  console.log(`charts drawn ${(frames / tookSeconds).toFixed(1)} times a second`)
  await visitor[Symbol.asyncDispose]()
  await browser.close()
}

async function publishersBesideConsoles(): Promise<void> {
  const authorization = site.owner
  await waits(site)
  const all = { without: [] as number[], with: [] as number[] }
  for (let round = 0; round < Number(values.rounds); round++) {
    all.without.push(...(await waits(site)))
    const streams = await Promise.all(
      Array.from({ length: consoles }, () => openEvents(`${platform.url}/console/overview/stream`, { authorization })),
    )
    all.with.push(...(await waits(site)))
    for (const stream of streams) stream.leave()
  }
  for (const [what, one] of Object.entries(all)) {
    const sorted = one.toSorted((a, b) => a - b)
    const worst = [0.99, 1].map(share => sorted[Math.ceil(sorted.length * share) - 1]!.toFixed(1))
    console.log(`publishers ${what} ${consoles} consoles: median ${median(one).toFixed(2)} ms, p99 ${worst[0]} ms, worst ${worst[1]} ms`)
  }
}

/** How long each publish waits, of a client that publishes 100 times a second for some seconds. */
async function waits(of: Site): Promise<number[]> {
  const found: number[] = []
  const endMs = performance.now() + 4000
  while (performance.now() < endMs) {
    const startMs = performance.now()
    await expectStatus(publish(platform.url, of, [{ n: 'a', v: 1 }]), 202)
    found.push(performance.now() - startMs)
    await wait(10)
  }
  return found
}
