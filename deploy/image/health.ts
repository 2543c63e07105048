// The image's HEALTHCHECK: exit code 0 if the role in this container takes work. Asks its internal listener, or the only port of `up`.

const port = (process.env['SVC_INTERNAL_LISTEN'] ?? '').split(':').at(-1)
const addresses = [`127.0.0.1:${port}`, `127.0.0.1:${process.env['SVC_HTTP_PORT'] ?? 8080}`]

for (const address of addresses) {
  try {
    const { ok, status } = await fetch(`http://${address}/readyz`, { signal: AbortSignal.timeout(3_000) })
    console.log(`${address}/readyz: ${status}`)
    process.exit(ok ? 0 : 1)
  } catch (error) {
    console.log(`${address}: ${(error as Error).message}`)
  }
}
process.exit(1)
