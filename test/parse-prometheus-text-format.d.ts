// The package has no types of its own. Histograms and summaries, which this service has none of, are left out.
declare module "parse-prometheus-text-format" {
  interface Family {
    name: string;
    help: string;
    type: string;
    metrics: { value: string; labels?: Record<string, string> }[];
  }
  export default function parsePrometheusTextFormat(text: string): Family[];
}
