// The image: built from deploy/Dockerfile, small, without a shell, and each role in it stores and serves messages on a read-only root.

import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { apiEnvironment, internalAddress, type Role, type Spawned, spawnProgram, token, whenReady } from '../roles/processes.ts'
import { describeUnlessMissing, whenRunning } from '../servers/describe-with.ts'
import { missingBuildah } from '../servers/install/buildah.ts'
import { describeWithKafka } from '../servers/kafka.ts'
import { describeWithPostgres } from '../servers/postgres.ts'
import { makeSite, publish, readUntil } from '../up/operator.ts'
import { type BuiltImage, buildImage, imageUser } from './built-image.ts'

const run = promisify(execFile)

describeUnlessMissing('the image', missingBuildah(), () => {
  let built: BuiltImage | undefined
  beforeAll(async () => {
    built = await buildImage()
  })
  afterAll(() => built?.remove())
  const image = whenRunning(() => built)

  function environmentOf(extra: Readonly<Record<string, string>>): Record<string, string> {
    return { ...Object.fromEntries(image.config.Env.map(variable => variable.split(/=(.*)/s).slice(0, 2))), ...extra }
  }

  function spawnInside(words: readonly string[], extra: Readonly<Record<string, string>>): Spawned {
    const [program, ...rest] = image.command([...image.config.Entrypoint, ...words])
    return spawnProgram(program!, rest, environmentOf(extra))
  }

  const start = (...given: Parameters<typeof spawnInside>): Promise<Role> => whenReady(spawnInside(...given))

  test('says how it runs, and has at most 250 MB and no shell', async () => {
    expect(image.config).toMatchObject({
      User: imageUser,
      Entrypoint: ['node', 'main.ts'],
      Cmd: ['--help'],
      StopSignal: 'SIGTERM',
      Healthcheck: { Test: ['CMD', 'node', 'deploy/image/health.ts'] },
      Labels: { 'org.opencontainers.image.licenses': 'Apache-2.0', 'org.opencontainers.image.version': image.version },
    })
    expect(image.bytes).toBeLessThan(250_000_000)
    const [program, ...words] = image.command(['node', '-e', "fs.accessSync('/bin/sh')"])
    await expect(run(program!, words, { env: environmentOf({}) })).rejects.toThrow('ENOENT')
    const [node, ...writing] = image.command(['node', '-e', "fs.writeFileSync('/sluice/new', '')"])
    await expect(run(node!, writing, { env: environmentOf({}) })).rejects.toThrow('EROFS')
  })

  test('brings the compile cache of its user', async () => {
    const [program, ...words] = image.command(['node', 'main.ts', '--version'])
    const { stdout, stderr } = await run(program!, words, { env: environmentOf({ NODE_DEBUG_NATIVE: 'COMPILE_CACHE' }) })
    expect(stdout + stderr).toMatch(/reading cache from .*\/commands\.ts\.\.\..* success/)
    expect(stdout + stderr).not.toMatch(/reading cache from .*\.\.\. (?!success)/)
  })

  describeWithKafka('with Kafka', kafka =>
    describeWithPostgres('and PostgreSQL', postgres => {
      test('each role starts from it, works, is found healthy, and stops at SIGTERM', async () => {
        const store = await postgres.createDatabase()
        const log = { SVC_LOG_BROKERS: kafka.brokers.join(','), SVC_LOG_TOPIC: 'image', SVC_LOG_CREATE: 'true' }
        const listen = async (): Promise<Record<string, string>> => ({ SVC_HTTP_PORT: '0', SVC_INTERNAL_LISTEN: await internalAddress() })
        const apiListens = await listen()
        const api = await start(['api'], { ...apiEnvironment(await postgres.createDatabase()), ...apiListens })
        const control = { SVC_CONTROL_URL: api.internalUrl, SVC_CONTROL_TOKEN: token }
        const othersListen = [await listen(), await listen(), await listen()]
        const ingest = await start(['ingest'], { ...control, ...log, ...othersListen[0] })
        const writer = spawnInside(['writer', 'relational'], { ...log, SVC_RELATIONAL_URL: store, ...othersListen[1] })
        const reader = await start(['reader', 'relational'], { ...control, SVC_RELATIONAL_URL: store, ...othersListen[2] })

        const site = await makeSite(api.url)
        expect((await publish(ingest.url, site, [{ n: 'count', v: 7 }])).status).toBe(202)
        expect(await readUntil(reader.url, site, 1)).toMatchObject([{ Name: 'count', Value: 7 }])

        const processes = [api.process, ingest.process, writer.child, reader.process]
        for (const [at, process] of processes.entries()) {
          const [program, ...words] = image.command(image.config.Healthcheck.Test.slice(1))
          const asked = environmentOf([apiListens, ...othersListen][at]!)
          expect((await run(program!, words, { env: asked })).stdout).toMatch(/readyz: 200\n$/)
          process.kill('SIGTERM')
          expect(await once(process, 'exit')).toEqual([0, null])
          await expect(run(program!, words, { env: asked })).rejects.toThrow()
        }
      })
    }),
  )
})
